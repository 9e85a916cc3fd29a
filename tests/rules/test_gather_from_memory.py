import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.optimizer import rewrite
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules import Keeps, Site
from autopipe.rules._obligations import ArraysOnHost
from autopipe.verify import compare
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites, named, with_all_rules

RULE = "gather_from_memory"
N = 37


def arrays(n=N):
    return {
        "scalar": np.arange(n),
        "image": (np.random.default_rng(0).random((n, 2, 3)).astype("float32"), np.arange(n) % 3 == 0),
        "text": np.array([f"row {row}" for row in range(n)], dtype=object),
    }


def slices(n=N):
    return tf.data.Dataset.from_tensor_slices(arrays(n))


@pytest.mark.parametrize("keeps", Keeps)
def test_gathers_the_same_batches(keeps):
    assert_rewrites(RULE, slices().batch(8), "range(0, 37) | batch(8) | map(gather)", keeps)


def test_refuses_batches_of_batches_of_which_the_last_is_smaller():
    assert_refuses(RULE, slices().batch(4).batch(3, drop_remainder=True), "an incomplete batch, which is dropped now")
    assert_rewrites(
        RULE,
        slices().batch(4, drop_remainder=True).batch(2),
        "range(0, 37) | batch(4, drop_remainder=True) | map(gather) | batch(2)",
    )


def test_a_seeded_shuffle_gives_the_same_order_in_every_epoch():
    expected = "range(0, 37) | shuffle(10, seed=3) | batch(8) | map(gather)"
    assert_rewrites(RULE, slices().shuffle(10, seed=3).batch(8), expected, Keeps.SEQUENCE)
    once = slices().shuffle(100, seed=3, reshuffle_each_iteration=False).batch(8)
    expected = "range(0, 37) | shuffle(100, seed=3, reshuffle_each_iteration=False) | batch(8) | map(gather)"
    assert_rewrites(RULE, once, expected, Keeps.SEQUENCE)


def test_an_unseeded_shuffle_gives_the_same_elements_in_an_order_of_its_own():
    dataset = slices().shuffle(100).batch(8)
    done = apply(RULE, dataset, Keeps.SEQUENCE)
    assert one_line(done.after) == "range(0, 37) | shuffle(100) | batch(8) | map(gather)"
    assert compare(dataset, build(done.after), Keeps.ELEMENTS) is None
    first, second = (np.concatenate([batch["scalar"] for batch in build(done.after)]) for _ in range(2))
    assert list(first) != list(second)


def test_stages_that_pick_by_position_stay_between():
    dataset = slices().skip(2).shard(3, 1).take(9).prefetch(2).repeat(3).batch(4)
    expected = "range(0, 37) | skip(2) | shard(3, 1) | take(9) | prefetch(2) | repeat(3) | batch(4) | map(gather)"
    assert_rewrites(RULE, dataset, expected, Keeps.SEQUENCE)


def test_an_option_stays_where_it_is():
    options = tf.data.Options()
    options.deterministic = True
    assert_rewrites(RULE, slices().with_options(options).batch(5), "range(0, 37) | options | batch(5) | map(gather)")


def test_whole_batches_keep_their_static_size():
    done = assert_rewrites(
        RULE, slices().batch(8, drop_remainder=True), "range(0, 37) | batch(8, drop_remainder=True) | map(gather)"
    )
    assert build(done.after).element_spec["image"][0].shape == [8, 2, 3]


def test_without_end_the_beginning_is_the_same_and_so_is_the_cardinality():
    dataset = slices().repeat().batch(8)
    done = apply(RULE, dataset)
    assert one_line(done.after) == "range(0, 37) | repeat() | batch(8) | map(gather)"
    assert compare(dataset, build(done.after), Keeps.SEQUENCE, limit=30) is None
    assert int(build(done.after).cardinality()) == tf.data.INFINITE_CARDINALITY


def test_no_rows_are_left_alone():
    assert_no_match(RULE, slices(0).batch(8))
    after_none = slices(0).batch(8).concatenate(slices().batch(8))
    done = rewrite(extract(after_none), [named(RULE)], keeps=Keeps.SEQUENCE, measurements=SampleMeasurements())
    assert compare(after_none, build(done.after), Keeps.SEQUENCE) is None


@pytest.mark.parametrize("n", [1, 8])
def test_few_rows(n):
    assert_rewrites(RULE, slices(n).batch(8), f"range(0, {n}) | batch(8) | map(gather)", Keeps.SEQUENCE)


def test_rows_without_values_and_one_array_alone():
    empty_rows = tf.data.Dataset.from_tensor_slices(np.zeros((5, 0), "float32"))
    assert_rewrites(RULE, empty_rows.batch(2), "range(0, 5) | batch(2) | map(gather)")
    complex_rows = tf.data.Dataset.from_tensor_slices((np.arange(5) * 1j, np.arange(5, dtype="float16")))
    assert_rewrites(RULE, complex_rows.batch(2), "range(0, 5) | batch(2) | map(gather)")


def test_the_calls_of_a_parallel_batch_become_those_of_the_gather():
    dataset = slices().batch(8, num_parallel_calls=2, deterministic=True, name="b")
    assert_rewrites(RULE, dataset, "range(0, 37) | batch(8) as 'b' | map(gather, calls=2, deterministic=True)")


def test_the_arrays_are_captured_and_not_copied():
    rows = tf.random.uniform((1000, 8))
    done = apply(RULE, tf.data.Dataset.from_tensor_slices(rows).batch(8))
    (captured,) = done.after.fn.concrete.captured_inputs
    assert captured is rows


def test_all_rules_together_give_the_same_elements():
    dataset = slices().map(lambda row: {**row, "twice": row["scalar"] * 2}).shuffle(9, seed=1).batch(8)
    assert compare(dataset, with_all_rules(dataset), Keeps.SEQUENCE) is None


def test_zipped_arrays_and_ranges_are_each_asked_once_for_a_batch():
    labels = tf.data.Dataset.range(5, 99)
    zipped = tf.data.Dataset.zip((tf.data.Dataset.zip((slices(), labels.skip(3))), slices(50).take(40)))
    assert_rewrites(
        RULE, zipped.shuffle(9, seed=2).batch(8), "range(0, 37) | shuffle(9, seed=2) | batch(8) | map(gather)"
    )


def test_what_is_zipped_with_a_map_is_left_to_other_rules():
    zipped = tf.data.Dataset.zip((slices(), tf.data.Dataset.range(37).map(tf.square)))
    assert_no_match(RULE, zipped.batch(8))


def test_refuses_where_it_is_not_faster():
    assert_refuses(RULE, slices().batch(8), "measured 1.01x", answers=Answers(speed=(1.01, 0.9, 1.1)))


def test_refuses_a_copy_of_arrays_on_an_accelerator_that_does_not_fit():
    class OnAccelerator:
        device, shape, dtype = "/device:GPU:0", tf.TensorShape([1000, 1000]), tf.float32

    source = ir.TensorSlices(dataset=None, components=(OnAccelerator(), tf.constant([1])))
    site = Site(source, source, Keeps.SEQUENCE, Keeps.SEQUENCE, Answers(ram_budget=3_000_000))
    assert not ArraysOnHost(source).check(site).holds
    assert "the host would be above the RAM budget of 2.86 MiB" in ArraysOnHost(source).check(site).because
    assert ArraysOnHost(source).check(Site(source, source, Keeps.SEQUENCE, Keeps.SEQUENCE, Answers())).holds


def test_refuses_rows_that_are_not_plain_tensors():
    ragged = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3], []]))
    assert_refuses(RULE, ragged.shuffle(3).batch(2), "RaggedTensor, not a plain tensor")
    sparse = tf.data.Dataset.from_tensor_slices((tf.sparse.eye(4), tf.range(4)))
    assert_refuses(RULE, sparse.batch(2), "SparseTensor, not a plain tensor")


def test_refuses_rows_that_are_handles_of_datasets():
    handles = [tf.data.experimental.to_variant(tf.data.Dataset.range(length)) for length in range(4)]
    rows = tf.data.Dataset.from_tensor_slices(tf.stack(handles))
    assert_refuses(RULE, rows.batch(2), "elements hold a variant, not a plain tensor")
    assert len(list(autopipe.optimize(rows.batch(2), seconds=0))) == 2


def test_does_not_match_stages_that_look_at_elements_or_hold_them():
    assert_no_match(RULE, slices().cache().batch(8))
    assert_no_match(RULE, slices().map(lambda row: row).batch(8))
    assert_no_match(RULE, slices().filter(lambda row: row["scalar"] > 3).batch(8))
    assert_no_match(RULE, slices().enumerate().batch(8))
    assert_no_match(RULE, slices().padded_batch(8))
    assert_no_match(RULE, tf.data.Dataset.from_tensors(np.arange(3)).batch(8))
    assert_no_match(RULE, tf.data.Dataset.range(9).batch(2))
    assert_no_match(RULE, slices().shuffle(3))


def test_refuses_where_each_repetition_draws_its_order_from_a_seed():
    orders = tf.data.Dataset.from_tensor_slices(np.arange(9)).shuffle(9, seed=1)
    assert_refuses(RULE, orders.take(8).repeat().batch(4), "each repetition draws its order from a seed")
