"""Every variant of a case yields the same elements, and as many as the case says."""

import numpy as np
import pytest
import tensorflow as tf

from autopipe.rules import Keeps
from autopipe.verify import compare
from benchmarks.cases import (
    i_text,
    j_shuffle_after_decode,
    k_remote_storage,
    l_python_function,
    m_filter_before_batch,
    n_expert_already,
    o_two_views,
    p_segmentation,
)

# How much data each case gets here, where its real size would take long.
AMOUNTS = {
    i_text: 600,
    j_shuffle_after_decode: 70,
    k_remote_storage: 20,
    l_python_function: 140,
    m_filter_before_batch: 2_000,
    n_expert_already: 140,
    o_two_views: 70,
    p_segmentation: 70,
}
CASES = [pytest.param(case, amount, id=case.name) for module, amount in AMOUNTS.items() for case in module.CASES]
RANDOM = {"python_function", "expert_images", "two_views", "segmentation"}
ROUNDED = {"shuffle_after_decode"}


def batch_sizes(dataset):
    return [len(tf.nest.flatten(batch)[0]) for batch in dataset]


def variants_of(case, data):
    return case.naive(data), case.expert(data), case.best(data)


def rows_of(dataset, part=0):
    return np.concatenate([tf.nest.flatten(batch)[part] for batch in dataset])


def means_of(dataset, part=0):
    rows = rows_of(dataset, part)
    return rows.reshape(len(rows), -1).mean(axis=1, dtype=np.float64)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("case", "amount"), CASES)
def test_variants_do_the_same_job(case, amount, tmp_path):
    data = case.make_data(tmp_path, amount)
    naive, *others = variants_of(case, data)
    sizes = batch_sizes(naive)
    assert sum(sizes) == case.units_per_epoch(data)
    for other in others:
        assert other.element_spec == naive.element_spec
        for _ in range(2):
            assert sorted(batch_sizes(other)) == sorted(sizes)
        assert (
            compare(naive, other, Keeps.TRAINING if case.name in RANDOM | ROUNDED else Keeps.ELEMENTS, epochs=1) is None
        )


def test_text_rows_are_padded_to_their_bucket(tmp_path):
    data = i_text.make_data(tmp_path, 1_000)
    widths = {batch[0].shape[1] for dataset in variants_of(i_text.CASES[0], data) for batch in dataset}
    assert widths == {16, 32, 64, 128}


def test_shuffled_images_agree_up_to_rounding(tmp_path):
    data = j_shuffle_after_decode.make_data(tmp_path, 60)
    naive, *others = (np.sort(means_of(dataset)) for dataset in variants_of(j_shuffle_after_decode.CASES[0], data))
    for other in others:
        np.testing.assert_allclose(other, naive, atol=0.5 / 255)


def test_smoothing_a_batch_equals_smoothing_each_signal():
    draw = np.random.default_rng(0)
    signals = draw.normal(size=(20, 1024)).astype(np.float32)
    weights = draw.uniform(0.2, 1, size=20).astype(np.float32)
    each = [l_python_function.smooth(signal, weight) for signal, weight in zip(signals, weights, strict=True)]
    np.testing.assert_array_equal(l_python_function.smooth_batch(signals, weights), each)


def test_filtered_rows_keep_their_order(tmp_path):
    data = m_filter_before_batch.make_data(tmp_path, 2_000)
    naive, *others = variants_of(m_filter_before_batch.CASES[0], data)
    for other in others:
        assert compare(naive, other, Keeps.SEQUENCE) is None


def test_both_views_are_of_one_photograph_and_differ(tmp_path):
    data = o_two_views.make_data(tmp_path, 60)
    for dataset in variants_of(o_two_views.CASES[0], data):
        for _ in range(2):
            first, second = (rows.mean(axis=(1, 2)) for rows in map(np.concatenate, zip(*dataset, strict=True)))
            # Brightness moves all channels alike; what is left tells photographs apart.
            tints = [(means - means.mean(axis=1, keepdims=True)).ravel() for means in (first, second)]
            assert np.corrcoef(*tints)[0, 1] > 0.9
            assert not np.allclose(first, second)


def test_masks_are_flipped_with_their_photographs(tmp_path):
    data = p_segmentation.make_data(tmp_path, 60)
    for dataset in variants_of(p_segmentation.CASES[0], data):
        for images, masks in dataset:
            assert set(np.unique(masks)) <= {0, 1, 2}
            brightness = tf.image.rgb_to_grayscale(images).numpy().reshape(len(images), -1)
            straight, mirrored = (each.numpy().reshape(len(masks), -1) for each in (masks, masks[:, :, ::-1]))
            for pixels, right, wrong in zip(brightness, straight, mirrored, strict=True):
                assert np.corrcoef(pixels, right)[0, 1] > np.corrcoef(pixels, wrong)[0, 1]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("module", [l_python_function, o_two_views, p_segmentation, n_expert_already])
def test_random_variants_draw_anew_and_agree_on_average(module, tmp_path):
    case = next(case for case in module.CASES if case.name in RANDOM)
    data = case.make_data(tmp_path, 60)
    averages = []
    for dataset in variants_of(case, data):
        rows = [rows_of(dataset) for _ in range(2)]
        edges = [np.sort(each.reshape(len(each), -1)[:, :8].mean(axis=1)) for each in rows]
        assert not np.allclose(*edges)
        averages.append((np.mean(rows), np.std(rows)))
    np.testing.assert_allclose(averages, [averages[0]] * 3, atol=0.15)
