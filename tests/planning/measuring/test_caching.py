"""What it takes to make an element and to read it from a cache, with little of what Python does beside."""

import pytest
import tensorflow as tf

from autopipe.pipeline.extract import extract
from autopipe.planning.measuring import caching
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules._base import MeasurementError

Dataset = tf.data.Dataset


@pytest.mark.parametrize(("elements", "held"), [(2**22, 4), (2**25, 0)], ids=["4 MiB each", "32 MiB each"])
def test_no_more_of_what_was_made_is_held_than_a_sample_takes(monkeypatch, elements, held):
    monkeypatch.setattr(caching, "_LITTLE", float("inf"))
    tree = extract(Dataset.range(64).map(lambda x: tf.fill([elements], tf.cast(x, tf.uint8))))
    assert len(caching.caching_cost(tree, float(elements), None, 2**40).made) <= held


@pytest.mark.parametrize(("budget", "most"), [(2**40, 8), (2 * 2**25, 2), (2**25, 1)])
def test_no_more_is_cached_to_time_it_than_memory_may_be_added(monkeypatch, budget, most):
    asked = []
    monkeypatch.setattr(caching, "_turns", lambda dataset, each=1, made=None: asked.append(each) or [1e-3] * 9)
    monkeypatch.setattr(caching, "_is_mostly_making", lambda *_: True)
    tree = extract(Dataset.range(64).map(lambda x: tf.fill([2**25], tf.cast(x, tf.uint8))))
    caching.caching_cost(tree, 2.0**25, None, budget)
    assert asked[-1] == most


def test_what_is_larger_than_a_sample_and_than_memory_may_be_added_is_not_made(monkeypatch):
    monkeypatch.setattr(caching, "build", None)
    tree = extract(Dataset.range(64).map(lambda x: tf.fill([2**25], tf.cast(x, tf.uint8))))
    with pytest.raises(MeasurementError, match="one element takes 32 MiB, above the RAM budget of 1 MiB"):
        SampleMeasurements(ram_budget=2**20).caching(tree)


@pytest.mark.parametrize(
    ("components", "seconds", "ways"),
    [(1, 0.5e-3, [1]), (1, 0.1e-3, [1, 64]), (60, 0.5e-3, [1, 40])],
    ids=["Python takes little of it", "Python takes much of it", "Python takes much of it for many components"],
)
def test_what_python_takes_of_an_element_counts_where_it_is_little(monkeypatch, components, seconds, ways):
    def turns(dataset, each=1, made=None):
        asked.append(each)
        return [seconds * each] * 9

    asked = []
    monkeypatch.setattr(caching, "_turns", turns)
    elements = Dataset.range(500).map(lambda x: tuple([x] * components))
    caching.caching_cost(extract(elements), 8.0, None, 2**40)
    assert asked[:-1] == ways


@pytest.mark.parametrize(
    ("giving", "ways"), [(0.05e-3, [1]), (0.2e-3, [1, 40])], ids=["a machine of its own", "a busy machine"]
)
def test_on_a_busy_machine_python_takes_more_than_usual(monkeypatch, giving, ways):
    def turns(dataset, each=1, made=None):
        asked.append(each)
        if made is not None:
            made.append(tf.constant(1))
        return [0.5e-3 * each] * 9

    asked = []
    monkeypatch.setattr(caching, "_turns", turns)
    monkeypatch.setattr(caching, "_giving_seconds", lambda element: giving)
    caching.caching_cost(extract(Dataset.range(500).map(lambda x: x + 1)), 8.0, None, 2**40)
    assert asked[:-1] == ways


@pytest.mark.parametrize(
    "element",
    [
        {"x": tf.zeros([3]), "none": None},
        (tf.ragged.constant([[1], [2, 3]]), tf.sparse.from_dense([0, 1])),
        tf.constant("text"),
    ],
    ids=["dict", "composites", "text"],
)
def test_what_python_takes_is_timed_with_an_element_of_any_kind(element):
    assert 0 < caching._giving_seconds(element) < 1


def test_what_gives_elements_once_only_is_not_said_to_be_read_from_a_cache(monkeypatch):
    monkeypatch.setattr(caching, "_making", lambda *asked: (1e-3, 8, ()))
    with pytest.raises(MeasurementError, match="no elements the second time"):
        SampleMeasurements().caching(extract(Dataset.range(3).filter(lambda x: x > 5)))


@pytest.mark.parametrize("count", [20, 70, 200])
def test_of_few_elements_one_in_as_many_is_looked_at_as_leaves_several_turns(count, monkeypatch):
    turned = []
    turns = caching._turns

    def noted(dataset, each=1, made=None):
        found = turns(dataset, each, made)
        turned.append((each, len(found)))
        return found

    monkeypatch.setattr(caching, "_turns", noted)
    monkeypatch.setattr(caching, "_is_mostly_making", lambda *_: False)
    caching.caching_cost(extract(Dataset.range(count).map(lambda x: x + 1)), 8.0, None, 2**40)
    (making, in_turns), (reading, _) = turned[-2:]
    assert making == reading > count // 8
    assert in_turns >= 3


STALLED, AT_ONCE, EVEN = [0.2, *[1e-3] * 9], [0.2, *[1e-3] * 9], [2e-3] * 10


@pytest.mark.parametrize(
    ("timed", "taken"),
    [([STALLED, EVEN], EVEN), ([AT_ONCE, AT_ONCE], AT_ONCE), ([EVEN], EVEN), ([STALLED, []], STALLED)],
    ids=["a busy moment", "many made at a time", "nothing stands out", "none the second time"],
)
def test_where_one_element_took_most_of_the_time_they_are_timed_again(timed, taken, monkeypatch):
    answers = iter(timed)
    monkeypatch.setattr(caching, "_turns", lambda *_: next(answers))
    assert caching._undisturbed(None) == taken
    assert next(answers, None) is None
