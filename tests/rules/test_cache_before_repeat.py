import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.build import build
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "cache_before_repeat"


def double(x):
    return x * 2


def noisy(x):
    return tf.cast(x, tf.float32) + tf.random.uniform(())


def some(x):
    return x % 3 > 0


@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize("count", [2, 7])
def test_holds_one_copy_of_every_element(count, keeps):
    dataset = tf.data.Dataset.range(9).map(double).repeat(count).cache()
    assert_rewrites(RULE, dataset, f"range(0, 9) | map(double) | cache() | repeat({count})", keeps)


def test_an_endless_repeat_is_served_from_memory():
    dataset = tf.data.Dataset.range(9).filter(some).batch(4).repeat().cache().take(20)
    expected = "range(0, 9) | filter(some) | batch(4) | cache() | repeat() | take(20)"
    assert_rewrites(RULE, dataset, expected, Keeps.SEQUENCE)


def test_the_functions_run_once(tmp_path):
    (tmp_path / "0").write_text("zero")
    names = tf.data.Dataset.from_tensors(str(tmp_path / "0"))
    done = apply(RULE, names.map(tf.io.read_file).repeat(3).cache())
    iterator = iter(build(done.after))
    read = [next(iterator)]
    (tmp_path / "0").write_text("changed")
    assert [value.numpy() for value in [*read, *iterator]] == [b"zero"] * 3


def test_every_steady_stage_may_be_upstream():
    numbers = tf.data.Dataset.range(9).enumerate(3).map(lambda i, x: i + x, num_parallel_calls=2).skip(1).take(7)
    slices = tf.data.Dataset.from_tensor_slices(np.arange(8)).shard(2, 1).prefetch(2).padded_batch(3).unbatch()
    joined = numbers.concatenate(slices.repeat(2)).cache()
    pairs = tf.data.Dataset.zip((joined, tf.data.Dataset.range(9).flat_map(lambda x: tf.data.Dataset.range(x))))
    fixed = pairs.shuffle(5, seed=1, reshuffle_each_iteration=False).batch(2).rebatch(3).repeat(2).cache()
    done = apply(RULE, fixed, Keeps.SEQUENCE)
    assert [step.rule for step in done.steps] == [RULE], done.refusals


def test_an_order_that_is_kept_is_repeated():
    dataset = tf.data.Dataset.range(9).shuffle(9, seed=1, reshuffle_each_iteration=False).repeat(3).cache()
    expected = "range(0, 9) | shuffle(9, seed=1, reshuffle_each_iteration=False) | cache() | repeat(3)"
    assert_rewrites(RULE, dataset, expected)


def test_no_elements():
    dataset = tf.data.Dataset.range(0).repeat(3).cache()
    assert_rewrites(RULE, dataset, "range(0, 0) | cache() | repeat(3)", Keeps.SEQUENCE)


def test_an_iterator_that_stops_early_leaves_the_next_one_whole():
    dataset = tf.data.Dataset.range(5).repeat(3).cache()
    after = build(apply(RULE, dataset).after)
    iterator = iter(after)
    next(iterator)
    del iterator
    assert [int(x) for x in after] == [*range(5)] * 3


def test_assumes_that_files_stay_unless_the_sequence_is_promised(tmp_path):
    (tmp_path / "a.txt").write_text("a\nb")
    dataset = tf.data.TextLineDataset(str(tmp_path / "a.txt")).repeat(2).cache()
    done = assert_rewrites(RULE, dataset, "tensor_slices | text_files() | cache() | repeat(2)", Keeps.ELEMENTS)
    assert "assumes the files stay as they are" in done.steps[0].proofs[1].because
    assert_refuses(RULE, dataset, "reads files that may change", Keeps.SEQUENCE)


def test_optimize_gives_the_same_elements():
    dataset = tf.data.Dataset.range(9).map(double).repeat(4).cache()
    optimized = autopipe.optimize(dataset, keeps="sequence", seconds=0)
    assert RULE in optimized.plan.rules
    assert compare(dataset, optimized, Keeps.SEQUENCE) is None


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [
        (tf.data.Dataset.range(9).shuffle(9), "shuffle(9) gives each repetition its own order"),
        (tf.data.Dataset.range(9).shuffle(9, seed=1), "shuffle(9, seed=1) gives each repetition its own order"),
        (tf.data.Dataset.range(9).map(noisy), "noisy draws random numbers"),
        (tf.data.Dataset.range(9).map(double, num_parallel_calls=2, deterministic=False), "frees the order"),
        (tf.data.Dataset.range(9).unique(), "cannot tell whether opaque"),
        (
            tf.data.Dataset.from_generator(lambda: iter([1]), output_signature=tf.TensorSpec((), tf.int32)),
            "the generator runs Python code (PyFunc), so each epoch must run it again",
        ),
        (
            tf.data.Dataset.range(9).interleave(
                lambda x: tf.data.Dataset.range(x), num_parallel_calls=2, deterministic=False
            ),
            "frees the order",
        ),
        (tf.data.Dataset.range(9).flat_map(lambda x: tf.data.Dataset.range(x).shuffle(3)), "<lambda>"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refuses_repetitions_that_may_differ(dataset, reason):
    assert_refuses(RULE, dataset.repeat(2).cache(), reason)


def test_refuses_where_an_option_frees_the_order():
    options = tf.data.Options()
    options.deterministic = False
    assert_refuses(
        RULE, tf.data.Dataset.range(9).repeat(2).cache().with_options(options), "options.deterministic=False"
    )


def test_refuses_a_file_cache(tmp_path):
    dataset = tf.data.Dataset.range(9).repeat(2).cache(str(tmp_path / "cache"))
    assert_refuses(RULE, dataset, "may already hold elements of the old place")


def test_refuses_where_errors_are_ignored():
    dataset = tf.data.Dataset.range(9).map(lambda x: 6 // x).repeat(2).cache().ignore_errors()
    assert_refuses(RULE, dataset, "ignore_errors() would drop them too")


def test_does_not_match_where_nothing_is_repeated():
    numbers = tf.data.Dataset.range(9)
    assert_no_match(RULE, numbers.repeat(1).cache())
    assert_no_match(RULE, numbers.repeat(0).cache())
    assert_no_match(RULE, numbers.cache().repeat(2))
    assert_no_match(RULE, numbers.repeat(2).batch(2).cache())
