import numpy as np
import pytest
import tensorflow as tf

from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites, with_all_rules

RULE = "filter_batches"
Dataset = tf.data.Dataset


def is_odd(x):
    return tf.bitwise.bitwise_and(x, 1) > 0


def structure(x):
    return {"x": x, "y": (tf.cast(x, tf.float32) * 0.5, tf.strings.as_string(x), tf.fill([2, 3], x))}


def by_text(row):
    return tf.strings.regex_full_match(row["y"][1], ".*7.*")


def is_second(x, y):
    return y > 0


def is_later(x, y):
    return x > y * 100


def rare(x):
    return x > 995


def by_sum(x):
    return tf.reduce_sum(x) > 0.1


def numbers(n=1000):
    return Dataset.range(n)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("keeps", Keeps)
def test_filters_batches(keeps):
    dataset = numbers().filter(is_odd).batch(8)
    assert_rewrites(RULE, dataset, "range(0, 1000) | batch(256) | map(where is_odd) | rebatch(8)", keeps)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 700])
def test_of_every_length_the_batches_are_the_same(n, drop):
    some = numbers(n).filter(is_odd)
    for size in (1, 3, 64, 300):
        dataset = some.batch(size, drop_remainder=drop)
        done = apply(RULE, dataset, Keeps.SEQUENCE)
        assert [step.rule for step in done.steps] == [RULE]
        assert build(done.after).element_spec == dataset.element_spec
        assert int(build(done.after).cardinality()) == int(dataset.cardinality())
        assert compare(dataset, build(done.after), Keeps.SEQUENCE, epochs=1) is None


def test_blocks_from_which_nothing_passes_or_all():
    dataset = numbers().filter(rare).batch(3)
    assert_rewrites(RULE, dataset, "range(0, 1000) | batch(256) | map(where rare) | rebatch(3)", Keeps.SEQUENCE)
    for bound in (-1, 1000):
        dataset = numbers().filter(lambda x, bound=bound: x < bound).batch(3, drop_remainder=True)
        assert compare(dataset, build(apply(RULE, dataset, Keeps.SEQUENCE).after), Keeps.SEQUENCE) is None


def test_nested_elements_with_texts():
    dataset = numbers().map(structure).filter(by_text).batch(5)
    expected = "range(0, 1000) | map(structure) | batch(127) | map(where by_text) | rebatch(5)"
    assert_rewrites(RULE, dataset, expected, Keeps.ELEMENTS)


def test_a_predicate_of_several_arguments_and_two_filters():
    pairs = Dataset.from_tensor_slices((np.arange(600), np.arange(600) % 3))
    dataset = pairs.filter(is_second).filter(is_later).batch(4)
    blocks = "batch(256) | map(where is_second) | rebatch(256) | map(where is_later) | rebatch(4)"
    assert_rewrites(RULE, dataset, f"tensor_slices | {blocks}", Keeps.SEQUENCE)


def test_a_seeded_shuffle_upstream_and_one_that_repeats_without_end():
    dataset = numbers().shuffle(50, seed=3).filter(is_odd).batch(7).repeat(2)
    blocks = "batch(256) | map(where is_odd) | rebatch(7)"
    assert_rewrites(RULE, dataset, f"range(0, 1000) | shuffle(50, seed=3) | {blocks} | repeat(2)", Keeps.SEQUENCE)
    dataset = numbers().shuffle(50).repeat().filter(is_odd).batch(7)
    assert f"repeat() | {blocks}" in one_line(apply(RULE, dataset, Keeps.SEQUENCE).after)
    dataset = numbers().repeat().filter(is_odd).batch(7)
    done = apply(RULE, dataset, Keeps.SEQUENCE)
    assert compare(dataset, build(done.after), Keeps.SEQUENCE, limit=400) is None


@pytest.mark.parametrize("keeps", Keeps)
def test_refuses_a_seeded_shuffle_that_starts_anew_since_an_epoch_left_halfway_would_draw_one_order_more(keeps):
    for mixed in (numbers(300).shuffle(50, seed=3).repeat(2), numbers(9).concatenate(numbers(99).shuffle(9, seed=3))):
        assert_refuses(RULE, mixed.filter(is_odd).batch(7), "each repetition draws its order from a seed", keeps)


def test_large_elements_are_not_held_by_the_hundred():
    images = numbers(40).map(lambda x: (tf.fill([512, 512], tf.cast(x, tf.float32)), x))
    done = apply(RULE, images.filter(lambda image, x: is_odd(x)).batch(4))
    (block,) = (node for node in done.after.input.inputs if isinstance(node, ir.Batch))
    assert block.batch_size == 7
    done = apply(RULE, images.filter(lambda image, x: is_odd(x)).batch(32))
    assert done.after.input.input.batch_size == 32


def test_names_stay_with_their_stages():
    dataset = numbers().filter(is_odd, name="odd").batch(8, name="eight")
    expected = "range(0, 1000) | batch(256) | map(where is_odd) as 'odd' | rebatch(8) as 'eight'"
    assert_rewrites(RULE, dataset, expected, Keeps.SEQUENCE)


def test_all_rules_together_give_the_same_elements():
    dataset = numbers(600).map(lambda x: x * 3).filter(is_odd).map(lambda x: x + 1).shuffle(40, seed=1).batch(16)
    assert compare(dataset, with_all_rules(dataset), Keeps.SEQUENCE) is None
    dataset = numbers(600).map(lambda x: x * 3).filter(is_odd).map(lambda x: x + 1).batch(16)
    assert compare(dataset, with_all_rules(dataset), Keeps.SEQUENCE) is None


def test_an_error_upstream_may_come_earlier_which_the_sequence_forbids():
    checked = numbers().map(lambda x: 7 // (x - 700))
    expected = "range(0, 1000) | map(<lambda>) | batch(256) | map(where is_odd) | rebatch(8)"
    assert_rewrites(RULE, checked.filter(is_odd).batch(8), expected, Keeps.ELEMENTS)
    assert_refuses(
        RULE, checked.filter(is_odd).batch(8), "it keeps elements only, since an error may come sooner", Keeps.SEQUENCE
    )


def test_refuses_where_errors_are_ignored_unless_nothing_can_fail():
    checked = numbers().map(lambda x: 7 // (x - 700)).filter(is_odd).batch(8)
    assert_refuses(RULE, checked.ignore_errors(), "ignore_errors() would drop them too")
    dataset = numbers().filter(lambda x: x > 30).batch(8).ignore_errors()
    done = apply(RULE, dataset, Keeps.SEQUENCE)
    assert compare(dataset, build(done.after), Keeps.SEQUENCE) is None
    assert len(done.steps) == 1


def test_refuses_where_the_element_that_fails_may_be_one_that_is_not_taken():
    checked = numbers().map(lambda x: 7 // (x - 700)).filter(is_odd).batch(8)
    assert_refuses(RULE, checked.take(3), "on an element that take(3) downstream leaves out", Keeps.ELEMENTS)


def test_a_predicate_that_may_round_otherwise_needs_keeps_training():
    rows = Dataset.from_tensor_slices(np.random.default_rng(0).normal(size=(500, 9)).astype("float32"))
    dataset = rows.filter(by_sum).batch(8)
    assert_rewrites(RULE, dataset, "tensor_slices | batch(256) | map(where by_sum) | rebatch(8)")
    assert_refuses(RULE, dataset, "it keeps training only", Keeps.ELEMENTS)


def test_refuses_elements_that_differ_in_shape_or_are_no_plain_tensors():
    ragged = Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3], []]))
    assert_refuses(RULE, ragged.filter(lambda row: tf.size(row) > 0).batch(2), "RaggedTensor, which is not a plain")
    texts = numbers().map(lambda x: tf.range(x)).filter(lambda row: tf.size(row) > 900).padded_batch(2)
    assert_no_match(RULE, texts)
    rows = numbers().map(lambda x: tf.fill([x % 2], x)).filter(lambda row: tf.size(row) > 0).batch(2)
    assert_refuses(RULE, rows, "tensors of shape (None,), which may differ")


def test_refuses_a_predicate_with_effects():
    dataset = numbers().filter(lambda x: tf.random.uniform(()) > 0.5).batch(8)
    assert_refuses(RULE, dataset, "draws random numbers (RandomUniform)")


def test_refuses_what_would_be_seen_to_run_ahead():
    count = tf.Variable(0, dtype=tf.int64)
    dataset = numbers().map(lambda x: count.assign_add(x)).filter(is_odd).batch(8)
    assert_refuses(RULE, dataset, "it would run ahead of the consumer")


def test_refuses_where_it_is_not_faster():
    slower = Answers(speed=(1.0, 0.9, 1.1))
    assert_refuses(RULE, numbers().filter(is_odd).batch(8), "measured 1.00x", answers=slower)


def test_does_not_match_other_orders():
    assert_no_match(RULE, numbers().batch(8).filter(lambda x: x[0] > 0))
    assert_no_match(RULE, numbers().filter(is_odd).shuffle(3).batch(8))


def test_few_texts_are_held_at_once():
    rows = Dataset.from_tensor_slices((["some", "texts"] * 200, np.arange(400))).filter(lambda text, x: x % 2 == 0)
    done = apply(RULE, rows.batch(4))
    sizes = [node.batch_size for node in trees.walk(done.after) if isinstance(node, ir.Batch)]
    assert sizes == [127]
