"""What stands before ``sample_from_datasets`` is read, and rewritten as any other stage."""

import pytest
import tensorflow as tf

import autopipe
from autopipe import Plan
from autopipe.optimizer import rewrite
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.serialized import graph_of
from autopipe.pipeline.text import stage, tree_lines
from autopipe.pipeline.visibility import who_would_see
from autopipe.planning.plans.fingerprint import fingerprint
from autopipe.rules import Keeps, catalogue
from autopipe.verify import compare
from sides import AlwaysFaster, apply, assert_refuses, assert_rewrites

Dataset = tf.data.Dataset


def heavy(x):
    product = tf.linalg.matmul(tf.fill([100, 100], tf.cast(x, tf.float32)), tf.ones([100, 100]))
    return x + 0 * tf.cast(tf.reduce_max(tf.sin(product)) * 1000, tf.int64)


def noisy(x):
    return tf.cast(heavy(x), tf.float32) + tf.random.uniform(())


def mixed(*parts, **settings):
    return Dataset.sample_from_datasets(parts, seed=3, **settings)


few, many = Dataset.range(8), Dataset.range(100, 140)


def opaque(dataset):
    return [node.label for node in trees.walk(extract(dataset)) if isinstance(node, ir.Opaque)]


def test_the_parts_and_what_draws_among_them_are_read():
    assert tree_lines(extract(mixed(few.map(heavy), many).batch(2))) == [
        "choices",
        "  random_numbers",
        "  batch(2)",
        "  map(select_dataset_constant_logits)",
        "branch 1",
        "  range(0, 8)",
        "  map(heavy)",
        "branch 2",
        "  range(100, 140)",
        "choose_from(2)",
        "batch(2)",
    ]


def test_numbers_that_change_with_every_iterator_are_not_read():
    assert opaque(mixed(few, many)) == []
    assert opaque(mixed(few, many, rerandomize_each_iteration=True)) == ["RandomDataset"]


FIXED = {
    "  range(0, 2)": Dataset.range(2),
    "  repeat(4)": Dataset.range(2).repeat(4),
    "  tensor_slices": Dataset.from_tensor_slices(tf.constant([1, 0, 0], tf.int64)),
    "  repeat()": Dataset.from_tensor_slices(tf.constant([1, 0], tf.int64)).repeat(),
}


@pytest.mark.parametrize(("last", "choices"), FIXED.items())
def test_choices_that_are_a_range_or_a_list_are_read(last, choices):
    dataset = Dataset.choose_from_datasets([few, many], choices)
    tree = extract(dataset)
    lines = tree_lines(tree)
    assert lines[lines.index("branch 1") - 1] == last
    assert opaque(dataset) == []
    assert extract(dataset) == tree
    assert compare(dataset, build(tree), Keeps.SEQUENCE, epochs=2) is None


@pytest.mark.parametrize(
    "choices", [Dataset.range(2).shuffle(2), Dataset.range(2).map(lambda x: 1 - x), Dataset.range(2).repeat(0)]
)
def test_other_choices_are_not_read(choices):
    assert opaque(Dataset.choose_from_datasets([few, many], choices)) == ["VariantDataset"]


def test_choices_with_much_behind_them_are_not_copied(monkeypatch):
    monkeypatch.setattr("autopipe.pipeline.serialized.graph_of", None)
    assert opaque(Dataset.choose_from_datasets([few, many], Dataset.range(2).map(heavy))) == ["VariantDataset"]


def test_a_long_list_of_choices_is_not_held_twice():
    choices = Dataset.from_tensor_slices(tf.zeros([200_000], tf.int64))
    assert opaque(Dataset.choose_from_datasets([few, many], choices)) == ["VariantDataset"]


def test_what_a_distribution_splits_is_marked_as_tensorflow_does():
    dataset = Dataset.choose_from_datasets([few, many], Dataset.range(2).repeat(4))

    def marks(graph):
        return [node.attr["replicate_on_split"].b for node in graph.node if node.op == "RangeDataset"]

    assert marks(graph_of(build(extract(dataset)))) == marks(graph_of(dataset)) == [True, False, False]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("keeps", Keeps)
def test_a_pipeline_of_fixed_choices_is_measured_as_a_whole(keeps):
    dataset = Dataset.choose_from_datasets([few.map(heavy), many.map(heavy)], Dataset.range(2).repeat(4)).batch(3)
    optimized = autopipe.optimize(dataset, keeps=keeps.name.lower(), seconds=2)
    assert compare(dataset, optimized, Keeps.SEQUENCE, epochs=3) is None
    assert who_would_see(extract(dataset)) is None


@pytest.mark.parametrize("stop", [False, True])
def test_parts_are_mapped_in_parallel_and_chosen_as_before(stop):
    dataset = mixed(few.map(heavy), many.map(heavy), stop_on_empty_dataset=stop)
    after = apply("parallel_map", dataset).after
    calls = {stage(node): node.num_parallel_calls for node in trees.walk(after) if isinstance(node, ir.Map)}
    assert calls == {"map(heavy, calls=AUTOTUNE)": -1, "map(select_dataset_constant_logits)": None}


def test_what_is_refused_at_the_stages_by_which_it_draws_is_not_said():
    def refused(dataset):
        done = rewrite(extract(dataset), catalogue(), keeps=Keeps.TRAINING, measurements=AlwaysFaster())
        return {refusal.where for refusal in done.refusals}

    assert not refused(mixed(few, many))
    weights = Dataset.range(1, 9).map(lambda x: 1 / tf.tile(heavy(x)[None], [2])).repeat()
    assert not refused(mixed(few, many, weights=weights))
    assert refused(mixed(few.map(noisy), many.map(noisy))) == {"... | cache() | map(rest of noisy, calls=32)"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize("stop", [False, True])
def test_all_rules_together_give_the_same_elements_in_the_same_order(stop, keeps):
    dataset = mixed(few.map(heavy), many.map(heavy), weights=[0.3, 0.7], stop_on_empty_dataset=stop).batch(3)
    done = rewrite(extract(dataset), catalogue(), keeps=keeps, measurements=AlwaysFaster())
    expected = {"prefetch_at_end", "cache_results" if stop else "parallel_map"}
    assert expected <= {step.rule for step in done.steps}
    assert compare(dataset, build(done.after), Keeps.SEQUENCE, epochs=2) is None


def test_the_knobs_of_the_parts_can_be_changed_between_epochs():
    dataset = mixed(few.map(heavy), many.map(heavy))
    as_planned = Plan(fingerprint(extract(dataset)), rules=("parallel_map", "parallel_map"))
    optimized = autopipe.optimize(dataset, plan=as_planned)
    calls = [name for name in optimized.knobs if name.endswith("num_parallel_calls")]
    assert len(calls) == 2
    iterator = iter(optimized)
    elements = [int(next(iterator))]
    optimized.retune(dict.fromkeys(calls, 2))
    assert elements + [int(x) for x in iterator] == [int(x) for x in optimized] == [int(x) for x in dataset]


FILLED = [
    mixed(few.map(heavy), many),
    mixed(few.map(heavy).repeat(), many.repeat(), stop_on_empty_dataset=True),
    mixed(few.map(heavy), many).repeat(2),
]
NOT_FILLED = [
    mixed(few.map(heavy), many, stop_on_empty_dataset=True),
    mixed(few.map(heavy).repeat(), many.repeat()).take(500),
    Dataset.choose_from_datasets([few.map(heavy), many], Dataset.range(2).repeat(4)),
]


@pytest.mark.parametrize("dataset", FILLED)
def test_a_part_that_is_read_to_its_end_may_be_cached(dataset):
    after = apply("cache_fixed_work", dataset).after
    assert any(isinstance(node, ir.Cache) for node in trees.walk(after))


@pytest.mark.parametrize("dataset", NOT_FILLED)
def test_a_part_that_may_be_left_before_its_end_is_not_cached(dataset):
    done = apply("cache_fixed_work", dataset)
    assert done.after == done.before
    assert any("may stop before its end" in refusal.reason for refusal in done.refusals)


def test_random_draws_of_the_parts_stay_random():
    dataset = mixed(few.map(noisy), many.map(noisy))
    optimized = autopipe.optimize(dataset, seconds=1)
    first, second = ([float(x) for x in optimized] for _epoch in range(2))
    assert [int(x) for x in first] == [int(x) for x in second] == [int(x) for x in dataset]
    assert first != second


def test_a_shuffle_does_not_go_before_a_map_that_fails_on_what_may_never_be_asked_for():
    failing = Dataset.range(9).map(lambda x: 6 // x).shuffle(5)
    safe = mixed(failing, many)
    assert any(isinstance(node, ir.Map) for node in trees.walk(apply("shuffle_before_map", safe).after))
    stopping = mixed(failing, many, stop_on_empty_dataset=True)
    assert_refuses("shuffle_before_map", stopping, "that choose_from(2, stop_on_empty=True) downstream leaves out")
    beside_fewer = Dataset.zip((failing, Dataset.range(4)))
    assert_refuses("shuffle_before_map", beside_fewer, "on an element that zip() downstream leaves out")
    beside_more = Dataset.zip((Dataset.range(9).map(heavy).shuffle(5, seed=1), Dataset.range(4)))
    expected = "zip()[range(0, 9) | shuffle(5, seed=1) | map(heavy), range(0, 4)]"
    assert_rewrites("shuffle_before_map", beside_more, expected)
