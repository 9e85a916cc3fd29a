import keras
import pytest
import tensorflow as tf
from batch_functions import APART, MIXED, NUMBERS
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from needing import needs_keras

import autopipe
from autopipe.optimizer import rewrite
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import AlwaysFaster, Answers, apply, assert_no_match, assert_refuses, assert_rewrites, named

RULE = "cache_rows"
Dataset = tf.data.Dataset
COUNT = 50
WORDS = [f"word{place} and {'more ' * (place % 4)}" for place in range(COUNT)]
TABLE = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["word7", "more"], [7, 8]), -1)


def lower(x):
    return tf.strings.lower(x)


def look_up(x):
    return TABLE.lookup(tf.strings.strip(x))


def to_number(x):
    return tf.strings.to_number(tf.strings.regex_replace(x, "[^0-9]", ""))


def fixed(x):
    return tf.strings.as_string(tf.range(x))


def angles(x):
    return tf.math.sin(tf.cast(tf.strings.length(x), tf.float32))


def noisy(x):
    return tf.strings.length(tf.strings.lower(x)) + tf.random.uniform(tf.shape(x), 0, 9, tf.int32)


def texts(**order):
    return Dataset.from_tensor_slices(WORDS).shuffle(20, **order)


KEPT = "tensor_slices | batch(8) | map({}) | unbatch() | assert_cardinality(50) | cache() | shuffle(20) | batch(8)"


def test_rows_are_kept_and_batched_again():
    done = assert_rewrites(RULE, texts().batch(8).map(look_up), KEPT.format("look_up"))
    assert done.steps[0].keeps is Keeps.SEQUENCE


def test_refuses_where_the_shuffle_after_another_cache_would_begin_to_wait_long():
    zipped = Dataset.zip((Dataset.range(7).shuffle(7).map(fixed), texts().batch(8).map(look_up)))
    rules = [named("cache_fixed_work"), named(RULE)]
    for seconds, caches in ((1e-3, 2), (9.0, 1)):
        done = rewrite(extract(zipped), rules, keeps=Keeps.TRAINING, measurements=Answers(caching=(seconds, 1e-5)))
        assert one_line(done.after).count("cache()") == caches
    assert any("a first element may wait no longer than 5 s" in each.reason for each in done.refusals)


def test_maps_and_prefetches_on_the_way_keep_their_places():
    dataset = texts().batch(8).map(tf.strings.strip).prefetch(2).map(look_up, num_parallel_calls=2).prefetch(1)
    made = KEPT.format("string_strip) | map(look_up, calls=2")
    assert_rewrites(RULE, dataset, f"{made} | prefetch(2) | prefetch(1)")


def test_a_seeded_order_stays():
    dataset = texts(seed=3).batch(8).map(look_up)
    done = assert_rewrites(RULE, dataset, KEPT.format("look_up").replace("shuffle(20)", "shuffle(20, seed=3)"))
    assert done.steps[0].keeps is Keeps.SEQUENCE


def test_what_comes_before_the_first_draw_is_kept():
    done = apply(RULE, texts().batch(8).map(noisy))
    assert one_line(done.after) == f"{KEPT.format('fixed part of noisy')} | map(rest of noisy)"


def test_a_cache_of_what_is_worked_on_is_no_longer_needed():
    dataset = Dataset.from_tensor_slices(WORDS).cache().shuffle(20).batch(8).map(look_up)
    assert_rewrites(RULE, dataset, KEPT.format("look_up"))


def test_batches_may_straddle_epochs():
    dataset = texts().repeat(3).batch(8).map(look_up)
    assert_rewrites(RULE, dataset, KEPT.format("look_up").replace("shuffle(20)", "shuffle(20) | repeat(3)"))


def test_floats_that_may_round_otherwise_among_others_keep_the_elements_only():
    done = assert_rewrites(RULE, texts().batch(8).map(angles), KEPT.format("angles"))
    assert done.steps[0].keeps is Keeps.ELEMENTS
    rounding = "it keeps elements only, since floats may round differently in another batch, and shuffle("
    assert_refuses(RULE, texts(seed=1).batch(8).map(angles), rounding)


def test_where_only_whole_batches_are_made_the_last_is_filled_up():
    even = KEPT.replace("batch(8)", "batch(10, drop_remainder=True)").replace("unbatch()", "unbatch() | take(50)")
    assert_rewrites(RULE, texts().batch(10, drop_remainder=True).map(look_up), even.format("look_up"))
    odd = even.replace("batch(10", "batch(8")
    filled = odd.replace("tensor_slices |", "concatenate()[tensor_slices, tensor_slices | take(6)] |", 1)
    assert_rewrites(
        RULE,
        texts(seed=3).batch(8, drop_remainder=True).map(lower),
        filled.format("lower").replace("shuffle(20)", "shuffle(20, seed=3)"),
    )


def test_refuses_where_a_row_may_fail_that_was_left_over():
    may_fail = "an element that batch(8, drop_remainder=True) leaves over may fail ("
    assert_refuses(RULE, texts().batch(8, drop_remainder=True).map(to_number), may_fail)
    even = KEPT.replace("batch(8)", "batch(10, drop_remainder=True)").replace("unbatch()", "unbatch() | take(50)")
    written = texts(seed=3).batch(10, drop_remainder=True).map(to_number)
    assert_rewrites(RULE, written, even.format("to_number").replace("shuffle(20)", "shuffle(20, seed=3)"))


def test_refuses_where_no_whole_batch_can_be_made(tmp_path):
    assert_refuses(RULE, texts().batch(60, drop_remainder=True).map(look_up), "makes whole batches only")
    (tmp_path / "lines.txt").write_text("\n".join(WORDS))
    lines = tf.data.TextLineDataset(str(tmp_path / "lines.txt")).shuffle(20)
    assert_refuses(RULE, lines.batch(8, drop_remainder=True).map(look_up), "makes whole batches only")


@pytest.mark.parametrize(
    ("dataset", "because"),
    [
        (texts().batch(8).map(lambda x: tf.strings.split(x).to_tensor()), "may depend on other rows of its batch"),
        (texts().batch(8).map(lambda x: tf.strings.reduce_join(tf.strings.lower(x))), "ReduceJoin"),
        (texts().map(noisy).shuffle(3).batch(8).map(tf.strings.as_string), "draws random numbers"),
        (texts().batch(8).map(look_up).take(3), "take(3)"),
        (texts().batch(8).map(look_up).ignore_errors(), "ignore_errors()"),
    ],
    ids=["as wide as the longest", "one text of all", "other elements", "take", "ignore_errors"],
)
def test_refuses(dataset, because):
    assert_refuses(RULE, dataset, because)


@pytest.mark.parametrize(
    "dataset",
    [
        Dataset.from_tensor_slices(WORDS).batch(8).map(look_up),
        texts(reshuffle_each_iteration=False).batch(8).map(look_up),
        texts().batch(8).shuffle(3).map(look_up),
        texts().map(look_up).batch(8),
        texts().batch(8).map(lambda x: tf.strings.as_string(tf.random.uniform(tf.shape(x))) + x),
        texts().batch(8).map(tf.identity),
    ],
    ids=["not shuffled", "one order", "batches shuffled", "no batch", "draws", "no work"],
)
def test_leaves_alone(dataset):
    assert_no_match(RULE, dataset)


def test_says_nothing_where_a_cache_keeps_the_batches_already():
    assert not apply(RULE, texts().batch(8).map(look_up).cache()).refusals


def test_refuses_rows_that_cost_little():
    dataset = texts().batch(8).map(look_up)
    assert_refuses(RULE, dataset, "us to make an element", answers=Answers(caching=(3.9e-6, 1e-6)))
    assert apply(RULE, dataset, answers=Answers(caching=(4.1e-6, 1e-6))).steps


def optimized(dataset, monkeypatch):
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1e-3, 1e-6))
    made = autopipe.optimize(dataset, rules=[RULE])
    assert made.plan.rules == (RULE,)
    return made


def test_epochs_have_all_rows_in_orders_of_their_own_and_make_each_once(monkeypatch):
    made = []

    @autopipe.stateless
    def noted(x):
        made.append(int(x))
        return x

    def dataset():
        return Dataset.range(COUNT).map(lambda x: tf.ensure_shape(tf.numpy_function(noted, [x], tf.int64), ()))

    kept = optimized(dataset().shuffle(COUNT).batch(8).map(tf.strings.as_string), monkeypatch)
    made.clear()
    epochs = [[int(row) for batch in kept for row in batch.numpy()] for _ in range(3)]
    assert all(sorted(epoch) == list(range(COUNT)) for epoch in epochs)
    assert len(set(map(tuple, epochs))) == 3
    assert sorted(made) == list(range(COUNT))
    assert kept.cardinality() == -(-COUNT // 8)


def test_whole_batches_of_every_size_have_the_same_rows(monkeypatch):
    for size in (7, 8, 25, 49):
        written = texts(seed=6).batch(size, drop_remainder=True).map(lower)
        assert compare(written, optimized(written, monkeypatch), Keeps.SEQUENCE, epochs=3) is None


def test_the_number_of_rows_in_files_is_that_of_their_lines(monkeypatch, tmp_path):
    (tmp_path / "lines.txt").write_text("\n".join(WORDS))
    lines = tf.data.TextLineDataset(str(tmp_path / "lines.txt")).shuffle(20, seed=5).batch(8).map(look_up)
    kept = optimized(lines, monkeypatch)
    assert compare(lines, kept, Keeps.SEQUENCE, epochs=3) is None


@needs_keras("3.9")
def test_rows_that_a_text_vectorization_makes_of_files_in_folders_are_kept(monkeypatch, tmp_path):
    for label in ("bad", "good"):
        (tmp_path / label).mkdir()
        for place, text in enumerate(WORDS[:20]):
            (tmp_path / label / f"{place}.txt").write_text(f"{text} {label}")
    vectorize = keras.layers.TextVectorization(output_sequence_length=6, vocabulary=["and", "more", "good"])

    def to_numbers(text, label):
        return vectorize(tf.expand_dims(text, -1)), label

    read = keras.utils.text_dataset_from_directory(tmp_path, batch_size=8, seed=1, verbose=False)
    written = read.map(to_numbers)
    kept = optimized(written, monkeypatch)
    assert compare(written, kept, Keeps.SEQUENCE, epochs=3) is None
    assert kept.caches_are_full


def test_a_plan_made_before_is_made_again(monkeypatch, tmp_path):
    written = texts(seed=4).batch(8).map(look_up)
    plan = optimized(written, monkeypatch).plan
    plan.save(tmp_path / "plan.json")
    again = autopipe.optimize(texts(seed=4).batch(8).map(look_up), plan=tmp_path / "plan.json")
    assert RULE in again.plan.rules
    assert compare(written, again, Keeps.SEQUENCE, epochs=2) is None


def batches(names, size, drop, repeats):
    """Return batches of shuffled rows, and what functions make of them, one after the other."""
    made = Dataset.from_tensor_slices(NUMBERS).shuffle(9, seed=2).repeat(repeats).batch(size, drop_remainder=drop)
    for name in names:
        made = made.map({**APART, **MIXED}[name]).map(lambda *parts: tf.cast(parts[-1], tf.float32)).prefetch(1)
    return made.map(tf.strings.as_string)


@settings(max_examples=settings().max_examples // 2)
@given(
    arguments=st.tuples(
        st.lists(st.sampled_from([*APART, *APART, *MIXED]), min_size=1, max_size=2),
        st.integers(1, 30),
        st.booleans(),
        st.integers(1, 2),
    ),
    keeps=st.sampled_from(Keeps),
)
def test_random_functions_of_random_batches_give_what_they_gave(arguments, keeps):
    try:
        list(batches(*arguments))
    except (ValueError, TypeError, tf.errors.OpError):
        assume(False)
    written = batches(*arguments)
    done = apply(RULE, written, keeps, AlwaysFaster())
    event(f"{len(done.steps)} steps")
    assert compare(written, build(done.after), min([step.keeps for step in done.steps], default=keeps)) is None
