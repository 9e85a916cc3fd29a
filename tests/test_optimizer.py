"""The driver: what it refuses, whom it blames, and the record it keeps."""

from dataclasses import replace

import pytest
import tensorflow as tf

import autopipe
from autopipe.errors import RewriteError
from autopipe.optimizer import rewrite
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps, Rewrite, Rule, catalogue
from sides import Answers, apply

Dataset = tf.data.Dataset


def add(x):
    return x + 3


def halve(x):
    return tf.cast(x, tf.int64) // 2


def wave(x):
    return tf.linalg.matmul(tf.fill([60, 60], x), tf.fill([60, 60], tf.sin(x)))


def noise(x):
    return x + tf.random.uniform((), maxval=2, dtype=tf.int64)


def test_a_rule_that_changes_the_type_of_elements_is_blamed_by_name():
    def lose_the_batch(node):
        """batch -> nothing."""
        return Rewrite(node.input) if isinstance(node, ir.Batch) else None

    broken = Rule("lose_the_batch", Keeps.SEQUENCE, lose_the_batch)
    with pytest.raises(RewriteError, match="lose_the_batch turned .* Leave it out with optimize"):
        rewrite(extract(Dataset.range(9).batch(2)), [broken], keeps=Keeps.TRAINING, measurements=Answers())


def test_a_rule_may_learn_the_shape_and_number_of_elements_but_not_forget_them():
    def know_more(node):
        """flat_map -> map."""
        known = Dataset.range(3).batch(1, drop_remainder=True)
        return Rewrite(extract(known)) if isinstance(node, ir.FlatMap) else None

    def know_less(node):
        """batch -> flat_map."""
        return Rewrite(extract(flat)) if isinstance(node, ir.Batch) else None

    flat = Dataset.range(3).flat_map(lambda x: Dataset.from_tensors(x).batch(1))
    learned = Rule("know_more", Keeps.SEQUENCE, know_more)
    done = rewrite(extract(flat), [learned], keeps=Keeps.SEQUENCE, measurements=Answers())
    assert build(done.after).element_spec.shape == [1]
    assert int(build(done.after).cardinality()) == 3

    forgot = Rule("know_less", Keeps.SEQUENCE, know_less)
    with pytest.raises(RewriteError, match="know_less turned"):
        rewrite(done.after, [forgot], keeps=Keeps.SEQUENCE, measurements=Answers())


def test_a_rule_that_would_change_nothing_is_refused():
    def same(node):
        """batch -> batch."""
        return Rewrite(replace(node)) if isinstance(node, ir.Batch) else None

    idle = Rule("same", Keeps.SEQUENCE, same)
    done = rewrite(extract(Dataset.range(9).batch(2)), [idle], keeps=Keeps.TRAINING, measurements=Answers())
    assert not done.steps
    assert [(each.rule, each.reason) for each in done.refusals] == [("same", "it would change nothing")]


def test_a_rule_that_fails_is_told_of_and_the_others_are_applied():
    def fails(node):
        """fails at a map."""
        return node.fn.nothing if isinstance(node, ir.Map) else None

    rules = [Rule("fails", Keeps.SEQUENCE, fails), *(rule for rule in catalogue() if rule.name == "prefetch_at_end")]
    with pytest.warns(UserWarning, match=r"fails did neither at .* \| map\(add\): it failed with AttributeError"):
        done = rewrite(extract(Dataset.range(9).map(add)), rules, keeps=Keeps.TRAINING, measurements=Answers())
    assert [step.rule for step in done.steps] == ["prefetch_at_end"]
    (refusal,) = done.refusals
    assert (refusal.rule, refusal.reason.startswith("it failed with AttributeError")) == ("fails", True)


@pytest.mark.parametrize(
    "error", [RewriteError("of autopipe's"), MemoryError(), tf.errors.OutOfRangeError(None, None, "")]
)
def test_what_is_not_an_error_of_a_rule_is_handed_on(error):
    def fails(node):
        """fails everywhere."""
        raise error

    broken = Rule("fails", Keeps.SEQUENCE, fails)
    with pytest.raises(type(error)):
        rewrite(extract(Dataset.range(9)), [broken], keeps=Keeps.TRAINING, measurements=Answers())


def test_a_pipeline_of_many_parts_takes_as_many_steps_as_it_needs():
    def one_more(node):
        """prefetch(n) -> prefetch(n + 1)."""
        if isinstance(node, ir.Prefetch) and node.buffer_size < 4:
            return Rewrite(ir.Prefetch(input=node.input, buffer_size=node.buffer_size + 1))
        return None

    parts = [Dataset.range(9 + part).prefetch(1) for part in range(80)]
    growing = Rule("one_more", Keeps.SEQUENCE, one_more)
    done = rewrite(extract(Dataset.zip(*parts)), [growing], keeps=Keeps.SEQUENCE, measurements=Answers())
    assert len(done.steps) == 3 * len(parts)


def test_a_rule_that_never_ends_is_blamed_by_name():
    def back_and_forth(node):
        """map -> map."""
        if isinstance(node, ir.Prefetch):
            return Rewrite(ir.Prefetch(input=node.input, buffer_size=3 - node.buffer_size))
        return None

    endless = Rule("back_and_forth", Keeps.SEQUENCE, back_and_forth)
    with pytest.raises(RewriteError, match="back_and_forth was still applied .* Leave it out with optimize"):
        rewrite(extract(Dataset.range(9).prefetch(1)), [endless], keeps=Keeps.TRAINING, measurements=Answers())


def test_op_determinism_asks_for_the_sequence():
    from tensorflow.python.framework import config

    tree = extract(Dataset.range(9).repeat(2).shuffle(9))
    config.enable_op_determinism()
    try:
        done = rewrite(tree, catalogue(), keeps=Keeps.TRAINING, measurements=Answers())
    finally:
        config.disable_op_determinism()
    assert "op determinism is enabled" in {refusal.reason.split("and ")[-1] for refusal in done.refusals}


def test_the_record_shows_only_what_changed_and_what_still_stands():
    tree = extract(Dataset.range(9).map(add).cache().map(halve).map(noise))
    done = rewrite(tree, catalogue(), keeps=Keeps.SEQUENCE, measurements=Answers())
    moved = next(step for step in done.steps if step.rule == "cache_after_map")
    assert (moved.before, moved.after) == ("... | cache() | map(halve)", "... | map(halve) | cache()")
    sites = {refusal.where for refusal in done.refusals}
    assert sites
    assert all(where.endswith("map(noise)") for where in sites)


def test_a_cache_is_moved_behind_a_map_and_a_batch_before_the_map_is_vectorized():
    tree = extract(Dataset.range(9).cache().map(add).batch(3))
    done = rewrite(tree, catalogue(), keeps=Keeps.SEQUENCE, measurements=Answers())
    vectorized = "range(0, 9) | batch(3) | map(vectorized add, calls=AUTOTUNE) | cache() | prefetch(AUTOTUNE)"
    assert one_line(done.after) == vectorized


def test_no_map_is_brought_before_a_batch_that_drops_elements_of_other_shapes():
    dataset = tf.data.Dataset.range(2).map(tf.range).take(2).batch(3, drop_remainder=True)
    assert list(dataset) == []
    done = apply("select_before_map", dataset)
    assert not done.steps
    assert "fails on elements of different shapes" in done.refusals[0].reason


@pytest.mark.parametrize("rules", [["shuffle_before_map"], ["drop_idle_stage"], None], ids=["moved", "dropped", "all"])
def test_no_map_comes_right_before_a_batch_that_loses_the_neighbours_of_an_element_that_fails(rules):
    """TensorFlow runs the two as one, which gives nothing of a batch that it has begun."""

    def written():
        texts = Dataset.from_tensor_slices(["x", *map(str, range(1, 9))]).map(tf.strings.to_number)
        return texts.map(lambda y: tf.fill([10_000], y)).shuffle(1).batch(2).ignore_errors()

    expected = [[1, 2], [3, 4], [5, 6], [7, 8]]
    for dataset in (written(), autopipe.optimize(written(), keeps="sequence", rules=rules, seconds=3)):
        assert [batch[:, 0].numpy().tolist() for batch in dataset] == expected


@pytest.mark.parametrize("idle", [lambda made: made.take(-1), lambda made: made.repeat(1)], ids=["take", "repeat"])
@pytest.mark.parametrize(
    ("rule", "moved"),
    [("shuffle_before_map", lambda made: made.shuffle(1)), ("select_before_map", lambda made: made.shard(2, 0))],
    ids=["shuffle", "shard"],
)
def test_no_map_comes_before_a_batch_that_loses_neighbours_where_an_idle_stage_is_between(rule, moved, idle):
    """TensorFlow drops those that hand everything on before it looks for a map and a batch."""

    def written():
        texts = Dataset.from_tensor_slices(["x" if n == 6 else str(n) for n in range(24)])
        numbers = texts.map(tf.strings.to_number).filter(lambda y: y >= 0)
        filled = numbers.map(lambda y: tf.fill([10], y)).apply(moved).apply(idle)
        return filled.batch(3).ignore_errors()

    sides = (written(), autopipe.optimize(written(), keeps="sequence", rules=[rule]))
    expected, got = ([batch[:, 0].numpy().tolist() for batch in side] for side in sides)
    assert got == expected


def test_a_map_may_come_before_a_batch_with_a_stage_between_that_tensorflow_does_not_drop():
    options = tf.data.Options()
    options.experimental_optimization.noop_elimination = False
    written = tf.data.Dataset.range(2).map(tf.range).take(2).take(-1).batch(3, drop_remainder=True)
    assert apply("select_before_map", written.with_options(options)).steps[0].after.endswith("| take(2) | map(range)")


def test_what_would_fail_while_it_is_read_does_not_fail_while_it_is_rewritten():
    table = tf.range(20)
    fives = Dataset.range(4).map(lambda at: tf.gather(table, tf.range(at, at + 5)))
    written = Dataset.zip((fives, Dataset.from_tensor_slices(tf.zeros([4, 6])))).unbatch()
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(written)
    done = apply("merge_zipped_maps", written)
    assert not done.steps
    assert "Encountered both 5 and 6" in done.refusals[0].reason


def test_what_is_made_parallel_stays_in_order_where_options_free_that_of_parallel_stages():
    options = tf.data.Options()
    options.deterministic = False
    written = Dataset.range(9).map(tf.square).with_options(options)
    (rule,) = (rule for rule in catalogue() if rule.name == "parallel_map")
    found = rewrite(extract(written), [rule], keeps=Keeps.SEQUENCE, measurements=Answers()).after
    assert "deterministic=True" in one_line(found)
    parallel = Dataset.range(9).map(tf.square, num_parallel_calls=2).with_options(options)
    assert "deterministic" not in one_line(extract(parallel)).split(" | ")[1]


@pytest.mark.parametrize(
    ("rule", "made"),
    [
        ("cache_fixed_work", lambda numbers: numbers.map(wave)),
        ("cache_results", lambda numbers: numbers.map(tf.sin).shuffle(9).take(4)),
        ("rebatch", lambda numbers: numbers.batch(3).map(tf.sin).unbatch().batch(2)),
        ("parallel_interleave", lambda numbers: numbers.interleave(lambda x: Dataset.range(2), cycle_length=2)),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_nothing_is_added_that_a_symbolic_checkpoint_cannot_hold(rule, made):
    numbers, options = Dataset.from_tensor_slices(tf.range(9.0)), tf.data.Options()
    options.experimental_symbolic_checkpoint = True
    written = made(numbers)
    assert apply(rule, written).steps
    done = apply(rule, written.with_options(options))
    assert not done.steps
    assert "options.experimental_symbolic_checkpoint" in done.refusals[0].reason


def test_beside_a_parallel_interleave_nothing_else_is_added_that_a_symbolic_checkpoint_cannot_hold():
    options = tf.data.Options()
    options.experimental_symbolic_checkpoint = True
    floats = Dataset.from_tensor_slices(tf.range(9.0)).interleave(Dataset.from_tensors, 2, num_parallel_calls=2)
    written = floats.map(wave).with_options(options)
    assert not apply("cache_fixed_work", written).steps


def test_what_cannot_be_saved_as_written_takes_a_cache_more():
    options = tf.data.Options()
    options.experimental_symbolic_checkpoint = True
    written = Dataset.from_tensor_slices(tf.range(9.0)).cache().map(wave).with_options(options)
    assert apply("cache_fixed_work", written).steps
