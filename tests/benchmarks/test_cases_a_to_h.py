"""Every variant of a case yields the same elements, and as many as the case says."""

import pytest
import tensorflow as tf

from autopipe.rules import Keeps
from autopipe.verify import compare
from benchmarks.cases import (
    a_flowers,
    b_imagenet,
    c_artificial,
    d_fused_map,
    e_parse_example,
    f_arrays,
    g_csv,
    h_windows,
)

# How much data each case gets here, where its real size would take long.
AMOUNTS = {
    a_flowers: 70,
    b_imagenet: 80,
    c_artificial: 2,
    d_fused_map: 70,
    e_parse_example: 300,
    f_arrays: 300,
    g_csv: 300,
    h_windows: 200,
}
CASES = [pytest.param(case, amount, id=case.name) for module, amount in AMOUNTS.items() for case in module.CASES]
RANDOM = {"flowers_augmented", "imagenet", "fused_map"}


def batch_sizes(dataset):
    return [len(tf.nest.flatten(batch)[0]) for batch in dataset]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("case", "amount"), CASES)
def test_variants_do_the_same_job(case, amount, tmp_path):
    data = case.make_data(tmp_path, amount)
    naive, *others = case.naive(data), case.expert(data), case.best(data)
    sizes = batch_sizes(naive)
    assert sum(sizes) == case.units_per_epoch(data)
    for other in others:
        assert other.element_spec == naive.element_spec
        assert batch_sizes(other) == sizes
        assert compare(naive, other, Keeps.TRAINING if case.name in RANDOM else Keeps.ELEMENTS, epochs=1) is None


@pytest.mark.one_in(2)
@pytest.mark.parametrize("module", [a_flowers, d_fused_map])
def test_augmentation_draws_anew_in_every_epoch(module, tmp_path):
    case, data = module.CASES[-1], module.make_data(tmp_path, 40)
    for variant in (case.naive, case.expert, case.best):
        dataset = variant(data)
        first, second = (sorted(mean for batch in dataset for mean in means(batch)) for _ in range(2))
        assert first != second


def means(batch):
    return tf.reduce_mean(tf.nest.flatten(batch)[0], (1, 2, 3)).numpy().tolist()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "case", [a_flowers.CASES[1], b_imagenet.CASES[0], d_fused_map.CASES[0]], ids=lambda case: case.name
)
def test_random_variants_agree_on_average(case, tmp_path):
    data = case.make_data(tmp_path, 160)
    moments = [
        tf.reduce_mean([tf.nn.moments(tf.nest.flatten(batch)[0], (0, 1, 2, 3)) for batch in variant(data)], 0)
        for variant in (case.naive, case.expert, case.best)
    ]
    for other in moments[1:]:
        tf.debugging.assert_near(other, moments[0], atol=0.15, rtol=0.0)
