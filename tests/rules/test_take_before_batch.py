import pytest
import tensorflow as tf

from autopipe.optimizer import rewrite
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites, named

RULE = "take_before_batch"


def structure(x):
    return {"x": x, "y": (tf.strings.as_string(x), tf.fill([2, 3], x))}


def larger(image):
    return tf.image.resize(image, (96, 96))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5, 6, 9])
def test_takes_elements_before_they_are_stacked(count, drop, keeps):
    batches = tf.data.Dataset.range(23).map(structure).batch(4, drop_remainder=drop)
    shown = f"batch(4{', drop_remainder=True' if drop else ''})"
    assert_rewrites(RULE, batches.take(count), f"range(0, 23) | map(structure) | take({4 * count}) | {shown}", keeps)


def test_no_elements_an_unknown_number_and_elements_without_end():
    numbers = tf.data.Dataset.range(23)
    assert_rewrites(RULE, numbers.take(0).batch(4).take(1), "range(0, 23) | take(0) | take(4) | batch(4)")
    some = numbers.filter(lambda x: x > 4).batch(4)
    assert_rewrites(RULE, some.take(2), "range(0, 23) | filter(<lambda>) | take(8) | batch(4)", Keeps.SEQUENCE)
    endless = numbers.repeat().batch(4, num_parallel_calls=2).take(9)
    assert_rewrites(RULE, endless, "range(0, 23) | repeat() | take(36) | batch(4, calls=2)", Keeps.SEQUENCE)


def test_keeps_a_seeded_order():
    dataset = tf.data.Dataset.range(23).shuffle(9, seed=1).batch(4, num_parallel_calls=2, deterministic=True).take(2)
    expected = "range(0, 23) | shuffle(9, seed=1) | take(8) | batch(4, calls=2, deterministic=True)"
    assert_rewrites(RULE, dataset, expected)


def test_leaves_what_takes_nothing_or_all_and_what_no_number_holds():
    numbers = tf.data.Dataset.range(23).batch(4)
    assert_rewrites(RULE, numbers.take(2**61 - 1), f"range(0, 23) | take({2**63 - 4}) | batch(4)", Keeps.SEQUENCE)
    for count in (-1, 0, 2**61):
        assert_no_match(RULE, numbers.take(count))


def test_an_element_that_fails_still_fails():
    dataset = tf.data.Dataset.range(8).map(lambda x: 8 // (x - 5)).batch(2)
    assert_rewrites(RULE, dataset.take(2), "range(0, 8) | map(<lambda>) | take(4) | batch(2)", Keeps.SEQUENCE)
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(build(apply(RULE, dataset.take(3)).after))


def test_refuses_under_ignore_errors():
    batches = tf.data.Dataset.range(8).map(lambda x: 8 // (x - 5)).batch(2).take(3)
    assert_refuses(RULE, batches.ignore_errors(), "ignore_errors")


def test_what_is_taken_of_batches_is_cached_once():
    images = tf.data.Dataset.from_tensor_slices(tf.random.stateless_uniform((40, 48, 48, 3), (1, 2)))
    dataset = images.map(larger).batch(4).take(3)
    rules = [named(name) for name in ("cache_fixed_work", "select_before_map", RULE)]
    done = rewrite(extract(dataset), rules, keeps=Keeps.SEQUENCE, measurements=Answers())
    assert one_line(done.after) == "tensor_slices | take(12) | map(larger) | cache() | batch(4)"
    assert compare(dataset, build(done.after), Keeps.SEQUENCE, epochs=2) is None
