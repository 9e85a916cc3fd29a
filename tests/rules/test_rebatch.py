import numpy as np
import pytest
import tensorflow as tf

from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import apply, assert_no_match, assert_refuses, assert_rewrites, with_all_rules

RULE = "rebatch"


def structure(batch):
    return {"x": batch, "y": (tf.cast(batch, tf.float32), tf.strings.as_string(batch), tf.stack([batch, batch], 1))}


def batches(n=23, size=4):
    return tf.data.Dataset.range(n).batch(size).map(structure)


BEFORE = "range(0, 23) | batch(4) | map(structure)"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("size", [1, 3, 4, 8, 23, 50])
def test_cuts_batches_of_another_size(size, drop, keeps):
    shown = f"rebatch({size}{', drop_remainder=True' if drop else ''})"
    dataset = batches().unbatch().batch(size, drop_remainder=drop)
    assert_rewrites(RULE, dataset, f"{BEFORE} | {shown}", keeps)


def test_cuts_a_parallel_batch_and_keeps_the_name_of_the_batch():
    dataset = batches().unbatch().batch(3, num_parallel_calls=2, deterministic=True, name="smaller")
    assert_rewrites(RULE, dataset, f"{BEFORE} | rebatch(3) as 'smaller'", Keeps.SEQUENCE)


def test_no_batches_at_all_and_batches_without_rows():
    assert_rewrites(RULE, batches(0).unbatch().batch(3), "range(0, 0) | batch(4) | map(structure) | rebatch(3)")
    empty = tf.data.Dataset.range(9).map(lambda x: tf.range(x % 3))
    assert_rewrites(RULE, empty.unbatch().batch(2), "range(0, 9) | map(<lambda>) | rebatch(2)", Keeps.SEQUENCE)


def test_rows_of_files_of_unknown_number(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(map(str, range(11))))
    lines = tf.data.TextLineDataset(str(tmp_path / "a.txt")).batch(4).map(tf.strings.to_number)
    expected = "tensor_slices | text_files() | batch(4) | map(string_to_number) | rebatch(3)"
    assert_rewrites(RULE, lines.unbatch().batch(3), expected, Keeps.SEQUENCE)


def test_all_rules_together_give_the_same_elements():
    dataset = batches().unbatch().batch(3)
    assert compare(dataset, with_all_rules(dataset), Keeps.SEQUENCE) is None


def test_refuses_where_the_number_of_batches_would_be_forgotten():
    slices = tf.data.Dataset.from_tensor_slices(np.arange(40).reshape(5, 8))
    for dataset, known in ((slices, "14"), (batches().repeat(), "infinite")):
        reason = f"the number of elements after rebatch(3) would be unknown, and is {known} now"
        assert_refuses(RULE, dataset.unbatch().batch(3), reason)


def test_refuses_where_the_type_would_change():
    slices = tf.data.Dataset.from_tensor_slices(np.arange(40).reshape(5, 8)).filter(lambda rows: rows[0] > 3)
    assert_refuses(RULE, slices.unbatch().batch(4), "the type of elements would be TensorSpec(shape=(4,)")


def test_refuses_elements_that_may_differ_in_shape():
    padded = tf.data.Dataset.range(6).map(lambda x: tf.range(x)).padded_batch(2)
    assert_refuses(RULE, padded.unbatch().batch(3), "the shape (None,) and may differ")


def test_refuses_what_is_not_a_plain_tensor():
    ragged = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3], []])).batch(2)
    assert_refuses(RULE, ragged.unbatch().batch(3), "RaggedTensor")
    sparse = tf.data.Dataset.from_tensor_slices(tf.sparse.eye(4)).batch(2)
    assert_refuses(RULE, sparse.unbatch().batch(3), "SparseTensor")


def test_refuses_where_errors_are_ignored():
    assert_refuses(RULE, batches().unbatch().batch(3).ignore_errors(), "ignore_errors() would drop them too")
    dataset = batches().ignore_errors().unbatch().batch(3)
    assert_rewrites(RULE, dataset, f"{BEFORE} | ignore_errors() | rebatch(3)")


@pytest.mark.parametrize(
    ("after", "held"),
    [
        (lambda d: d.filter(lambda x: x[0, 0] > 3), "all elements"),
        (lambda d: d.shard(3, 0), "all elements"),
        (lambda d: d.prefetch(1).shuffle(500), "500 elements"),
        (lambda d: d.take(3), "1 elements"),
    ],
    ids=["filter", "shard", "shuffle", "take"],
)
def test_refuses_to_hold_large_batches_for_some_small_ones_cut_from_them(after, held):
    large = tf.data.Dataset.range(3).map(lambda x: tf.zeros([2**12 + tf.cast(x, tf.int32), 2**11]))
    written = large.unbatch().batch(16)
    refused = f"{held} would be held, at 33,5"
    assert_refuses(RULE, after(written), refused, answers=SampleMeasurements())
    assert apply(RULE, written.prefetch(2).cache(), answers=SampleMeasurements()).steps


def test_holds_large_batches_where_those_cut_from_them_are_larger_or_few():
    small = batches().unbatch()
    for after in (small.batch(3).shuffle(10), small.batch(8).filter(lambda x: x["x"][0] > 3).cache()):
        assert apply(RULE, after, answers=SampleMeasurements()).steps


def test_does_not_match_other_orders():
    assert_no_match(RULE, batches().unbatch())
    assert_no_match(RULE, batches().unbatch().shuffle(3).batch(3))
    assert_no_match(RULE, batches().rebatch(3))
