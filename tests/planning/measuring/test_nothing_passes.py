"""A sample of which nothing passes is told from one of which something does, in any stage that may drop elements."""

import time

import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import stage
from autopipe.planning.measuring import nothing_passes
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.planning.measuring.nothing_passes import (
    ending_in_time,
    may_fall_silent,
    refuse_if_nothing_passes,
    seen_to_drop_all,
)
from autopipe.rules import MeasurementError

Dataset = tf.data.Dataset

pytestmark = pytest.mark.timeout(120)

NUMBERS = Dataset.range(5).repeat()


def none_of(x):
    return x > 9


def nothing(_):
    return Dataset.range(0)


def fails(_):
    return tf.strings.to_number("none", tf.int64)


DROPPING = {
    "filter": lambda numbers: numbers.filter(none_of),
    "flat_map": lambda numbers: numbers.flat_map(nothing),
    "interleave": lambda numbers: numbers.interleave(nothing, cycle_length=2),
    "group_by_window": lambda numbers: numbers.group_by_window(lambda x: x, lambda _key, group: group.take(0), 2),
    "unbatch": lambda numbers: numbers.batch(2).map(lambda rows: rows[:0]).unbatch(),
    "rebatch": lambda numbers: numbers.batch(2).map(lambda rows: rows[:0]).rebatch(4),
    "ignore_errors": lambda numbers: numbers.map(fails).ignore_errors(),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", DROPPING)
def test_a_stage_that_drops_all_is_named(kind):
    dropped = DROPPING[kind](Dataset.range(5).repeat())
    with pytest.raises(MeasurementError, match=f"tried passes {kind}"):
        refuse_if_nothing_passes(extract(dropped.map(lambda x: x + 1).batch(2)))


def test_a_part_to_choose_from_that_never_gives_one_is_named():
    parts = Dataset.range(5).repeat(), Dataset.range(5).repeat().filter(none_of)
    with pytest.raises(MeasurementError, match="tried passes filter"):
        refuse_if_nothing_passes(extract(Dataset.sample_from_datasets(parts, seed=1).batch(2)))


def test_of_two_filters_the_one_that_drops_the_rest_is_named():
    numbers = Dataset.range(5).repeat().filter(lambda x: x > 2)
    with pytest.raises(MeasurementError, match="tried passes filter") as refused:
        refuse_if_nothing_passes(extract(numbers.filter(none_of)))
    assert "none_of" in str(refused.value)


def test_the_only_stage_that_may_drop_is_named_without_another_look(monkeypatch):
    looked_at = []
    monkeypatch.setattr(nothing_passes, "_gives_any", lambda tree: looked_at.append(tree))
    endless = extract(Dataset.range(5).repeat().filter(none_of).batch(2))
    with pytest.raises(MeasurementError, match="tried passes filter"):
        refuse_if_nothing_passes(endless)
    assert looked_at == [endless]


def test_one_that_passes_is_enough():
    refuse_if_nothing_passes(extract(Dataset.range(5).repeat().filter(lambda x: x == 4).batch(64)))


def test_a_window_longer_than_the_sample_is_filled_by_its_repetitions():
    windows = Dataset.range(5).repeat().window(64, drop_remainder=True)
    refuse_if_nothing_passes(extract(windows.flat_map(lambda window: window.batch(64))))


# Long enough for a pipeline to start on a busy machine.
LOOK = 0.7


def slowly(x):
    def after_a_while(value):
        time.sleep(LOOK / 3)
        return value

    return tf.ensure_shape(tf.numpy_function(after_a_while, [x], tf.int64), ())


def chosen_from(parts, choice):
    return Dataset.choose_from_datasets(parts, Dataset.from_tensors(tf.constant(choice, tf.int64)).repeat())


def fed_slowly():
    return Dataset.range(5).repeat().map(slowly)


SEEN = {
    **{kind: (kind, DROPPING[kind]) for kind in ("filter", "flat_map", "interleave", "unbatch", "ignore_errors")},
    "the last of two": ("filter(none_of)", lambda numbers: numbers.filter(lambda x: x > 2).filter(none_of)),
    "errors in batches": ("ignore_errors", lambda numbers: numbers.map(fails).batch(2).ignore_errors()),
    "a chosen part": ("filter(none_of)", lambda numbers: chosen_from([numbers.filter(none_of), numbers], 0)),
}
NOT_SEEN = {
    "a first element in time": lambda: Dataset.range(5).repeat().filter(lambda x: x == 4).batch(8),
    "a part that is never chosen": lambda: chosen_from([NUMBERS.filter(none_of), NUMBERS], 1),
    "a batch": lambda: fed_slowly().interleave(Dataset.from_tensors).batch(64, drop_remainder=True),
    "a batch of what may fail": lambda: fed_slowly().ignore_errors().batch(64, drop_remainder=True),
    "a window": lambda: fed_slowly().window(64).flat_map(lambda window: window.batch(64, drop_remainder=True)),
    "a group": lambda: fed_slowly().group_by_window(
        lambda x: x, lambda _, group: group.batch(64, drop_remainder=True), 64
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("what", SEEN)
def test_a_stage_that_took_elements_and_gave_none_is_seen_to_drop_all(what):
    named, dropping = SEEN[what]
    dropped = dropping(Dataset.range(5).repeat())
    assert stage(seen_to_drop_all(extract(dropped.batch(2)), LOOK)).startswith(named)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("what", NOT_SEEN)
def test_no_stage_is_seen_to_drop_all_where_an_element_came_or_may_come_after(what):
    assert seen_to_drop_all(extract(NOT_SEEN[what]()), LOOK) is None


def test_all_parts_to_choose_from_are_looked_at_together():
    # Until the first element is taken, it takes a moment for each part.
    look = 3 * LOOK
    parts = [Dataset.range(5).repeat().filter(none_of) for _ in range(8)]
    began = time.perf_counter()
    assert seen_to_drop_all(extract(Dataset.sample_from_datasets(parts).batch(2)), look) is not None
    assert time.perf_counter() - began < 4 * look


def test_two_pipelines_are_not_compared_on_a_sample_that_their_filter_drops_whole():
    batches = Dataset.range(4000).map(lambda x: x * 2).cache().batch(2).filter(lambda x: x[0] > 7000)
    tree = extract(batches)
    with pytest.raises(MeasurementError, match="tried passes filter"):
        SampleMeasurements().whole_speed(tree, extract(batches.prefetch(1).map(lambda x: x)))


def test_a_pipeline_sorted_by_what_a_filter_looks_at_is_optimized_in_time():
    features, classes = np.random.default_rng(0).random((20_000, 8), np.float32), np.repeat([0, 1], 10_000)
    rows = Dataset.from_tensor_slices((features, classes)).map(lambda x, y: (x * 2 + 1, y)).batch(32)
    second = rows.filter(lambda x, y: y[0] == 1)
    ours, theirs = (list(each.as_numpy_iterator()) for each in (autopipe.optimize(second), second))
    assert [batch.tobytes() for batch, _ in ours] == [batch.tobytes() for batch, _ in theirs]


def early(place, *_):
    return place < 7


SILENT = {
    "enumerate": NUMBERS.enumerate().filter(early),
    "zip": Dataset.zip((Dataset.counter(), NUMBERS)).filter(early),
    "scan": NUMBERS.scan(tf.constant(0, tf.int64), lambda place, x: (place + 1, (place, x))).filter(early),
    "counter": Dataset.counter().map(lambda x: x + 1).filter(early),
    "in batches": NUMBERS.enumerate().batch(2).map(lambda place, x: x[place < 7]).rebatch(2),
}
GOES_ON = {
    "no end": NUMBERS.enumerate().batch(4),
    "an end": Dataset.range(5).enumerate().filter(early),
    "values": NUMBERS.shuffle(5).filter(lambda x: x < 2).batch(4).unbatch(),
    "an epoch each": Dataset.range(5).enumerate().filter(early).repeat(),
    "flat_map": NUMBERS.flat_map(Dataset.range),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SILENT)
def test_what_looks_at_places_may_fall_silent_and_ends_in_time(name):
    tree = extract(SILENT[name])
    assert may_fall_silent(tree)
    (ending,) = ending_in_time([tree], 0.5)
    given = len(list(build(ending)))
    assert 0 < given < 8


@pytest.mark.parametrize("name", GOES_ON)
def test_what_ends_or_goes_in_cycles_is_left_as_it_is(name):
    tree = extract(GOES_ON[name])
    assert ending_in_time([tree], 0.5) == [tree]


def test_where_one_form_of_a_pipeline_may_fall_silent_all_end_in_time():
    other = extract(NUMBERS.batch(2))
    assert ending_in_time([extract(SILENT["enumerate"]), other], 0.5)[1] != other


def tokens(x):
    return tf.strings.length(tf.strings.as_string(x))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("cached", [False, True])
def test_a_pipeline_of_which_the_first_elements_are_taken_by_their_places_is_optimized_in_time(cached, monkeypatch):
    monkeypatch.setattr("autopipe.planning.measuring.measure._MOST_SECONDS", 2)
    numbers = Dataset.range(1000).map(tokens)
    written = (numbers.cache() if cached else numbers).enumerate().filter(lambda place, _: place < 100).batch(8)
    ours = autopipe.optimize(written)
    for _epoch in range(2):
        assert [str(each) for each in ours] == [str(each) for each in written]
