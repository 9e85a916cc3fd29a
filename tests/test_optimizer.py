"""The driver, and every rule on pipelines that nobody wrote for it."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autopipe.errors import RewriteError
from autopipe.optimizer import rewrite
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps, Rewrite, Rule, catalogue
from autopipe.verify import compare
from sides import Answers

Dataset = tf.data.Dataset


def add(x):
    return x + 3


def halve(x):
    return tf.cast(x, tf.int64) // 2


def noise(x):
    return x + tf.random.uniform((), maxval=2, dtype=tf.int64)


def seeded_noise(x):
    return x + tf.random.uniform((), maxval=2, dtype=tf.int64, seed=5)


def some(x):
    return tf.reduce_sum(x) % 3 > 0


SOURCES = {
    "range": lambda: Dataset.range(17),
    "slices": lambda: Dataset.from_tensor_slices(np.arange(11, dtype="int64") * 7),
    "concatenation": lambda: Dataset.range(4).concatenate(Dataset.range(5)),
    "flat_map": lambda: Dataset.range(5).flat_map(Dataset.range),
}
# Stages for scalar int64 elements; what may follow depends on nothing else.
STAGES = {
    "map": lambda d: d.map(add),
    "parallel map": lambda d: d.map(halve, num_parallel_calls=2),
    "deterministic map": lambda d: d.map(add, num_parallel_calls=2, deterministic=True),
    "random map": lambda d: d.map(noise),
    "seeded map": lambda d: d.map(seeded_noise),
    "filter": lambda d: d.filter(some),
    "cache": lambda d: d.cache(),
    "repeat": lambda d: d.repeat(2),
    "shuffle": lambda d: d.shuffle(5),
    "seeded shuffle": lambda d: d.shuffle(5, seed=1),
    "shuffle once": lambda d: d.shuffle(5, reshuffle_each_iteration=False),
    "take": lambda d: d.take(13),
    "skip": lambda d: d.skip(1),
    "shard": lambda d: d.shard(2, 0),
    "prefetch": lambda d: d.prefetch(2),
    "rebatch": lambda d: d.batch(3).unbatch(),
}
ENDS = {
    "none": lambda d: d,
    "batch": lambda d: d.batch(4),
    "whole batches": lambda d: d.map(add).batch(3, drop_remainder=True),
    "parallel batch": lambda d: d.batch(4, num_parallel_calls=2).map(add),
    "structure": lambda d: d.map(lambda x: {"a": x, "b": (tf.cast(x, tf.float32), tf.strings.as_string(x))}).batch(2),
}
RANDOM = {"random map", "shuffle", "shuffle once"}


def pipelines():
    return st.tuples(
        st.sampled_from(sorted(SOURCES)),
        st.lists(st.sampled_from(sorted(STAGES)), max_size=5),
        st.sampled_from(sorted(ENDS)),
    )


def make(recipe):
    source, middle, end = recipe
    dataset = SOURCES[source]()
    for stage in middle:
        dataset = STAGES[stage](dataset)
    return ENDS[end](dataset)


def comparable(recipe):
    """Return the most that two runs of one pipeline agree on, given what its author left to chance."""
    _, middle, end = recipe
    chance = [position for position, stage in enumerate(middle) if stage in RANDOM]
    if not chance:
        return Keeps.SEQUENCE
    after = middle[chance[0] :]
    if "filter" in after:
        return None
    picked = {"take", "skip", "shard", "rebatch", "random map", "seeded map"} & {*after} or end == "whole batches"
    return Keeps.TRAINING if picked or "repeat" in middle else Keeps.ELEMENTS


@pytest.mark.parametrize("keeps", Keeps)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(recipe=pipelines())
def test_all_rules_together_keep_what_they_promise(keeps, recipe):
    dataset = make(recipe)
    done = rewrite(extract(dataset), catalogue(), keeps=keeps, measurements=Answers())

    rewritten = build(done.after)

    assert all(step.keeps >= keeps for step in done.steps)
    weakest = min([Keeps.SEQUENCE, *(step.keeps for step in done.steps)])
    assert int(rewritten.cardinality()) == int(dataset.cardinality())
    agreed = comparable(recipe)
    if agreed is not None:
        assert compare(dataset, rewritten, min(weakest, agreed)) is None, one_line(done.after)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(recipe=pipelines(), rule=st.sampled_from(catalogue()))
def test_each_rule_alone_comes_to_an_end_and_then_has_nothing_to_do(recipe, rule):
    done = rewrite(extract(make(recipe)), [rule], keeps=Keeps.TRAINING, measurements=Answers())
    again = rewrite(done.after, [rule], keeps=Keeps.TRAINING, measurements=Answers())
    assert not again.steps


def test_a_rule_that_changes_the_type_of_elements_is_blamed_by_name():
    def lose_the_batch(node):
        """batch -> nothing."""
        return Rewrite(node.input) if isinstance(node, ir.Batch) else None

    broken = Rule("lose_the_batch", Keeps.SEQUENCE, lose_the_batch)
    with pytest.raises(RewriteError, match="lose_the_batch turned .* Leave it out with optimize"):
        rewrite(extract(Dataset.range(9).batch(2)), [broken], keeps=Keeps.TRAINING, measurements=Answers())


def test_a_rule_that_never_ends_is_blamed_by_name():
    def back_and_forth(node):
        """map -> map."""
        if isinstance(node, ir.Prefetch):
            return Rewrite(ir.Prefetch(input=node.input, buffer_size=3 - node.buffer_size))
        return None

    endless = Rule("back_and_forth", Keeps.SEQUENCE, back_and_forth)
    with pytest.raises(RewriteError, match="back_and_forth"):
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
    assert all(where.endswith("map(noise)") for where in sites)


def test_a_cache_is_moved_before_the_map_behind_it_is_vectorized():
    done = rewrite(
        extract(Dataset.range(9).cache().map(add).batch(3)), catalogue(), keeps=Keeps.SEQUENCE, measurements=Answers()
    )
    assert one_line(done.after) == "range(0, 9) | map(add, calls=AUTOTUNE) | cache() | batch(3) | prefetch(AUTOTUNE)"


def test_every_rule_says_its_shape_and_its_argument():
    for rule in catalogue():
        assert " -> " in rule.shape
        assert "It takes:" in " ".join(rule.argument.split())
