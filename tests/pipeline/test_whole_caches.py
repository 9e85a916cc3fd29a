"""What a cache must hold is said only where an element that failed is bound to be missing in it."""

import numpy as np
import pytest
import tensorflow as tf

from autopipe.functions.batched.vectorize import vectorize
from autopipe.pipeline import ir
from autopipe.pipeline.build import memory_caches
from autopipe.pipeline.extract import extract
from autopipe.pipeline.whole_caches import Whole, whole

Dataset = tf.data.Dataset


def of(kept, after=lambda cached: cached):
    pipeline = extract(after(kept.cache()))
    (cache,) = memory_caches(pipeline)
    return whole(cache, pipeline)


def ten():
    return Dataset.range(10).map(lambda x: x + 1)


COUNTED = {
    "elements": (lambda: ten().prefetch(2).shuffle(3).enumerate(), 10, False),
    "zipped": (lambda: Dataset.zip((ten(), Dataset.range(7))), 7, False),
    "none": (lambda: Dataset.range(0).map(lambda x: x), 0, False),
    "batches": (lambda: ten().batch(4), 10, True),
    "padded batches": (lambda: ten().map(lambda x: tf.range(x)).padded_batch(4), 10, True),
    "mapped batches": (lambda: ten().batch(4).map(lambda x: x * 2).prefetch(1), 10, True),
    "after a skip": (lambda: ten().skip(5), 5, False),
    "batches without a rest": (lambda: ten().batch(5, drop_remainder=True), 10, True),
}


@pytest.mark.parametrize("name", COUNTED)
def test_the_number_is_in_the_elements_and_in_no_fewer(name):
    make, number, in_rows = COUNTED[name]
    found = of(make())
    assert found == Whole(number, in_rows)
    assert found.is_in(make())
    assert number == 0 or not found.is_in(make().skip(1))


@pytest.mark.parametrize("calls", [None, 2])
@pytest.mark.parametrize("bad", range(10))
def test_after_a_skip_there_are_fewer_wherever_one_failed(bad, calls):
    made = Dataset.range(10).map(lambda x: tf.debugging.check_numerics(1 / (tf.cast(x, tf.float32) - bad), ""), calls)
    iterator, given = iter(made.skip(5).prefetch(1)), 0
    with pytest.raises(tf.errors.InvalidArgumentError):
        for _ in iterator:
            given += 1
    assert given + sum(1 for _ in iterator) < 5


def test_of_vectorized_batches_rows_are_counted_whatever_their_ops():
    matrices = Dataset.range(10).map(lambda x: tf.eye(2, dtype=tf.float64) * tf.cast(x, tf.float64))
    elements = extract(matrices.map(tf.linalg.inv))
    batches = ir.Batch(input=elements.input, batch_size=4)
    cache = ir.Cache(input=ir.Map(input=batches, fn=vectorize(elements.fn, None)))
    assert whole(cache, cache) == Whole(10, in_rows=True)
    assert of(matrices.batch(4).map(tf.linalg.inv)) is None


def asserted(dataset):
    return dataset.apply(tf.data.experimental.assert_cardinality(10))


def test_how_many_records_there_are_may_be_asserted_before_the_cache_or_after_it():
    records = Dataset.from_tensors("some file").apply(tf.data.TFRecordDataset).map(tf.strings.length)
    assert of(records) is None
    assert of(asserted(records)) == Whole(10)
    assert of(records, asserted) == Whole(10)
    assert of(records, lambda cached: asserted(cached.shuffle(5).map(lambda x: x + 1))) == Whole(10)
    assert of(records, lambda cached: asserted(cached.skip(5))) is None
    assert of(records.take(12), asserted) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: ten().take(5),
        lambda: ten().filter(lambda x: x > 2),
        lambda: ten().batch(4, drop_remainder=True),
        lambda: ten().batch(2).batch(2),
        lambda: ten().batch(4).map(lambda x: tf.reduce_sum(x)),
        lambda: ten().batch(5).unbatch(),
        lambda: ten().repeat(2),
        lambda: ten().repeat(),
        lambda: ten().ignore_errors(),
        lambda: ten().interleave(lambda x: Dataset.range(x)),
        lambda: ten().take(5).apply(tf.data.experimental.assert_cardinality(5)),
        lambda: Dataset.from_generator(lambda: iter([1]), output_signature=tf.TensorSpec([], tf.int64)),
    ],
)
def test_what_may_give_another_element_in_place_of_one_that_failed_is_not_counted(make):
    assert of(make()) is None


def not_five(x):
    tf.debugging.assert_none_equal(x, np.int64(5))
    return x


def test_batches_that_were_put_together_anew_after_an_element_that_failed_are_told_by_their_rows():
    """As many batches come out, the last of them shorter."""
    checked = Dataset.range(10).map(not_five)
    found = checked.ignore_errors().batch(4)
    assert len(list(found)) == 3
    assert not of(checked.batch(4)).is_in(found)
