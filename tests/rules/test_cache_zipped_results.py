import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import autopipe
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.text import one_line
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import AlwaysFaster, Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "cache_zipped_results"
Dataset = tf.data.Dataset
TEXTS = Dataset.from_tensor_slices([f"{number}" for number in range(12)])
NUMBERS = Dataset.range(12)


def number(text):
    return tf.strings.to_number(text)


def both(a, b):
    return number(a), number(b)


def product(a, b):
    return number(a) * number(b) + tf.random.uniform([])


def difference(a, b):
    return number(a) - number(b)


def optimized(dataset, monkeypatch):
    """Return it with this rule alone, as if its elements took a millisecond to make."""
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1e-3, 1e-6))
    made = autopipe.optimize(dataset, rules=[RULE])
    assert made.plan.rules == (RULE,)
    return made


def pairs():
    """Return a dataset of its own: another one would go on with the orders of its seed."""
    return Dataset.zip((TEXTS, TEXTS.shuffle(12, seed=3)))


KEPT = "zip()[tensor_slices | enumerate(), tensor_slices | enumerate() | shuffle(12, seed=3)]"
MEMOIZED = "memoized_map(part of both, calls=AUTOTUNE)"


def test_what_is_done_with_one_side_alone_is_kept():
    done = assert_rewrites(RULE, pairs().map(both), f"{KEPT} | {MEMOIZED} | {MEMOIZED} | map(rest of both)")
    assert done.steps[0].keeps is Keeps.SEQUENCE


def test_what_moves_pairs_stays_where_it_was():
    dataset = pairs().shuffle(5, seed=1).repeat(2).take(20).map(both, num_parallel_calls=2)
    moved = f"{KEPT} | shuffle(5, seed=1) | repeat(2) | take(20)"
    memoized = MEMOIZED.replace("AUTOTUNE", "2")
    assert_rewrites(RULE, dataset, f"{moved} | {memoized} | {memoized} | map(rest of both, calls=2)", Keeps.SEQUENCE)


def test_what_draws_runs_in_every_epoch():
    done = apply(RULE, pairs().map(product))
    memoized = "memoized_map(part of product, calls=AUTOTUNE)"
    assert one_line(done.after) == f"{KEPT} | {memoized} | {memoized} | map(rest of product)"
    first, second = (list(build(done.after).as_numpy_iterator()) for _epoch in range(2))
    assert first != second


def test_a_side_without_work_is_not_numbered():
    dataset = Dataset.zip((TEXTS, NUMBERS.shuffle(12, seed=3))).map(lambda text, x: (x, number(text)))
    sides = "zip()[tensor_slices | enumerate(), range(0, 12) | shuffle(12, seed=3)]"
    done = apply(RULE, dataset)
    assert one_line(done.after) == f"{sides} | memoized_map(part of <lambda>, calls=AUTOTUNE) | map(rest of <lambda>)"
    assert compare(dataset, build(done.after), Keeps.SEQUENCE, epochs=3) is None


def test_sides_may_be_named_nested_and_of_several_tensors():
    several = Dataset.zip((TEXTS, NUMBERS))
    sides = Dataset.zip({"b": several.shuffle(12, seed=2), "a": {"c": TEXTS.skip(2).repeat()}})

    def joined(element):
        text, x = element["b"]
        return {"sum": number(text) + number(element["a"]["c"]), "x": x, "text": text}

    done = apply(RULE, sides.map(joined))
    assert [step.rule for step in done.steps] == [RULE]
    assert compare(sides.map(joined), build(done.after), Keeps.SEQUENCE, epochs=3) is None


def test_ignored_errors_leave_out_the_same_pairs_in_every_epoch():
    def fallible(x, y):
        return tf.strings.to_hash_bucket_fast(tf.strings.as_string(x), 9) // (x % 3), tf.strings.as_string(y)

    dataset = Dataset.zip((NUMBERS, NUMBERS.shuffle(12, seed=3))).map(fallible).batch(2).ignore_errors()
    done = apply(RULE, dataset)
    assert [step.rule for step in done.steps] == [RULE]
    assert compare(dataset, build(done.after), Keeps.SEQUENCE, epochs=3) is None


def test_where_a_cache_could_serve_or_cache_results_does_nothing_is_said():
    for dataset in (
        Dataset.zip((TEXTS, TEXTS)).map(both),
        Dataset.zip((TEXTS, TEXTS)).shuffle(12).map(both),
        TEXTS.shuffle(12).take(5).map(number),
        pairs().map(lambda a, b: (a, b)),
        pairs().map(lambda a, b: number(tf.strings.join([a, b]))),
    ):
        assert_no_match(RULE, dataset)


def test_a_side_that_differs_from_epoch_to_epoch_is_refused():
    dataset = Dataset.zip((TEXTS, TEXTS.shuffle(12).batch(1).unbatch())).map(both)
    assert_refuses(RULE, dataset, "shuffle(12) gives each repetition its own order")


def test_ragged_sides_are_refused():
    ragged = Dataset.from_tensor_slices(tf.ragged.constant([["1"], ["2", "3"]]))
    dataset = Dataset.zip((ragged, TEXTS.shuffle(12))).map(lambda row, text: (row, number(text)))
    assert_refuses(RULE, dataset, "elements hold a RaggedTensor, not a plain tensor")


def test_refuses_results_of_which_tensorflow_could_not_choose_one():
    def packed(a, b):
        return [tf.quantization.quantize(number(text), 0.0, 50.0, tf.quint16).output for text in (a, b)]

    assert_refuses(RULE, pairs().map(packed), "elements hold a quint16, for which TensorFlow has no conditional")


def test_what_all_sides_keep_together_must_fit():
    assert_refuses(RULE, pairs().map(both), "above the RAM budget", answers=Answers(cache_bytes=600, ram_budget=1100))
    done = apply(RULE, pairs().map(both), answers=Answers(cache_bytes=600, ram_budget=1200))
    assert done.new_cache_bytes == 1200


def test_each_side_is_worked_out_once_for_each_of_its_elements(monkeypatch):
    dataset = optimized(Dataset.zip((TEXTS.take(5).repeat(), TEXTS.shuffle(12))).map(difference), monkeypatch)
    tables = [node.table for node in trees.walk(dataset.tree) if isinstance(node, ir.MemoizedMap)]
    for _epoch in range(2):
        assert len(list(dataset)) == 12
    assert sorted(int(tf.raw_ops.LookupTableSizeV2(table_handle=table)) for table in tables) == [5, 12]


def test_an_iterator_that_is_retuned_goes_on(monkeypatch):
    plain, dataset = pairs().map(difference), optimized(pairs().map(difference), monkeypatch)
    for calls in (1, 3):
        expected, iterator = [float(x) for x in plain], iter(dataset)
        seen = [float(next(iterator)) for _ in range(4)]
        dataset.retune({name: calls for name in dataset.knobs if name.startswith("memoized_map")})
        assert seen + [float(x) for x in iterator] == expected


MOVES = {
    "seeded": lambda dataset: dataset.shuffle(5, seed=4),
    "take": lambda dataset: dataset.take(9),
    "skip": lambda dataset: dataset.skip(2),
    "repeat": lambda dataset: dataset.repeat(2),
    "shard": lambda dataset: dataset.shard(2, 1),
}
moves = st.lists(st.sampled_from(sorted(MOVES)), max_size=2)


@pytest.mark.parametrize("function", [both, lambda a, b: number(a) + tf.cast(tf.strings.length(b), tf.float32)])
@given(sides=st.tuples(moves, moves), after=moves)
def test_whatever_moves_sides_and_pairs_they_are_the_same(function, sides, after):
    def moved(dataset, names):
        for name in names:
            dataset = MOVES[name](dataset)
        return dataset

    dataset = moved(Dataset.zip(tuple(moved(TEXTS, names) for names in sides)), after).map(function).ignore_errors()
    done = apply(RULE, dataset, Keeps.SEQUENCE, AlwaysFaster())
    assert compare(dataset, build(done.after), Keeps.SEQUENCE, epochs=3) is None


def test_elements_with_a_none_are_left_alone():
    with_none = Dataset.range(8).map(lambda x: (x, None))
    pairs = Dataset.zip((with_none, Dataset.range(8).shuffle(8))).map(lambda a, b: (tf.sin(float(a[0])), b))
    assert not apply(RULE, pairs, Keeps.TRAINING, AlwaysFaster()).steps
