import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.optimizer import rewrite
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import AlwaysFaster, Answers, apply, assert_no_match, assert_refuses, assert_rewrites, named

RULE = "cache_after_batch"
Dataset = tf.data.Dataset


def image(x):
    return {"image": tf.fill([4, 4], x), "label": x % 3}


def words(x):
    return tf.range(x % 5 + 1)


def ragged(x):
    return tf.RaggedTensor.from_row_lengths(tf.range(x), [x])


@pytest.mark.parametrize("keeps", Keeps)
def test_batches_are_cached_in_place_of_elements(keeps):
    dataset = Dataset.range(10).map(image).cache().batch(4)
    assert_rewrites(RULE, dataset, "range(0, 10) | map(image) | batch(4) | cache()", keeps)


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("count", [0, 1, 7, 8])
def test_a_last_batch_that_is_smaller_is_kept_or_dropped_as_before(count, drop):
    after = apply(RULE, Dataset.range(count).cache().batch(4, drop_remainder=drop)).after
    assert one_line(after).endswith("| cache()")
    assert_rewrites(RULE, Dataset.range(count).cache().batch(4, drop_remainder=drop), one_line(after))


@pytest.mark.parametrize("make", [ragged, lambda x: tf.sparse.from_dense(tf.one_hot([x], 9)), tf.strings.as_string])
def test_batches_of_what_is_no_plain_number_are_cached_too(make):
    dataset = Dataset.range(9).map(make).skip(2).cache().batch(3)
    after = apply(RULE, dataset).after
    assert one_line(after).endswith("| skip(2) | batch(3) | cache()")
    assert_rewrites(RULE, dataset, one_line(after))


def test_refuses_a_map_before_a_batch_that_tensorflow_would_make_one_of():
    elements = Dataset.range(7).map(ragged).cache()
    assert_refuses(RULE, elements.batch(3, drop_remainder=True), "TensorFlow then makes one of the two")


@pytest.mark.parametrize(("size", "drop"), [(3, False), (7, True)])
def test_a_map_may_come_before_a_batch_that_drops_nothing(size, drop):
    elements = Dataset.range(7).map(ragged).cache()
    after = apply(RULE, elements.batch(size, drop_remainder=drop)).after
    assert one_line(after).endswith("| cache()")
    assert_rewrites(RULE, elements.batch(size, drop_remainder=drop), one_line(after))


def test_padded_batches_are_cached_with_their_padding():
    dataset = Dataset.range(10).map(words).cache().padded_batch(4)
    assert_rewrites(RULE, dataset, "range(0, 10) | map(words) | padded_batch(4) | cache()")


def test_what_follows_the_cache_goes_on_with_batches():
    dataset = Dataset.range(12).cache().batch(2).shuffle(3, seed=1).repeat(2)
    assert_rewrites(RULE, dataset, "range(0, 12) | batch(2) | cache() | shuffle(3, seed=1) | repeat(2)")


def test_a_map_before_the_cache_can_then_be_done_by_the_batch():
    dataset = Dataset.from_tensor_slices(np.zeros((64, 8), np.uint8)).map(lambda x: tf.cast(x, tf.float32)).cache()
    rules = [named(RULE), named("vectorize_map")]
    done = rewrite(extract(dataset.batch(8)), rules, keeps=Keeps.SEQUENCE, measurements=AlwaysFaster())
    assert [step.rule for step in done.steps] == [RULE, "vectorize_map"]
    assert compare(dataset.batch(8), build(done.after), Keeps.SEQUENCE, epochs=2) is None


@pytest.mark.parametrize(
    "dataset",
    [
        Dataset.range(9).cache().shuffle(3).batch(2),
        Dataset.range(9).cache().repeat(2).batch(2),
        Dataset.range(9).batch(2),
        Dataset.range(9).batch(2).cache(),
    ],
)
def test_leaves_what_is_mixed_or_repeated_between_and_what_is_cached_by_the_batch(dataset):
    assert_no_match(RULE, dataset)


def test_refuses_a_cache_that_others_read_too():
    cache = Dataset.range(6).shuffle(6).take(3).cache()
    assert_refuses(RULE, cache.batch(1).unbatch().concatenate(cache), "both readers get elements from it")


def test_refuses_under_ignore_errors():
    dataset = Dataset.range(6).map(lambda x: tf.fill([x], 1)).cache().batch(2)
    assert_refuses(RULE, dataset.ignore_errors(), "ignore_errors() would drop them too")


def test_refuses_a_cache_file(tmp_path):
    dataset = Dataset.range(6).cache(str(tmp_path / "elements")).batch(2)
    assert_refuses(RULE, dataset, "may already hold elements of the old place")


def test_refuses_where_the_last_batch_is_the_last_that_is_asked_for():
    unknown = Dataset.range(10).filter(lambda x: x < 99).cache().batch(3)
    assert_refuses(RULE, unknown.take(4), "may stop before its end")
    known = Dataset.range(10).cache().batch(3).take(4)
    assert_rewrites(RULE, known, "range(0, 10) | batch(3) | cache() | take(4)")


def test_refuses_padding_that_does_not_fit():
    dataset = Dataset.range(10).map(words).cache().padded_batch(4)
    assert_refuses(RULE, dataset, "above the RAM budget", answers=Answers(ram_budget=500))


def test_elements_that_cannot_be_stacked_still_fail():
    elements = Dataset.range(9).map(lambda x: tf.fill([2 + x // 8], x)).skip(1).cache()
    dataset = autopipe.optimize(elements.batch(2), rules=[RULE])
    assert RULE in dataset.plan.rules
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Cannot batch tensors"):
            list(dataset)
