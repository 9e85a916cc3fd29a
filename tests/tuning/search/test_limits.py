"""No more threads or elements than there is room for are tried; what a pipeline has already it keeps."""

import pytest
import tensorflow as tf
from optuna.distributions import CategoricalDistribution, IntDistribution

from autopipe.pipeline.extract import extract
from autopipe.pipeline.knobs import Knob
from autopipe.planning.memory.machine import Machine
from autopipe.search_spaces import default
from autopipe.tuning.search.first_tries import first_tries
from autopipe.tuning.search.limits import most_held, most_threads, within
from autopipe.tuning.search.search import Search
from autopipe.tuning.search.window import Window

CALLS, POOL, UNBOUNDED = "map[load].num_parallel_calls", "thread_pool.size", "map[load].use_unbounded_threadpool"
KNOBS = (
    Knob(CALLS, "num_parallel_calls", -1),
    Knob(UNBOUNDED, "use_unbounded_threadpool", 0, automatic=0, most=1, least=0),
    Knob("prefetch.buffer_size", "buffer_size", 8),
    Knob(POOL, "size", 0, automatic=0),
)
NOW = {knob.name: knob.value for knob in KNOBS}
MACHINE = Machine(cores=2, memory_bytes=2**34, available_bytes=2**33, host="here")


@pytest.mark.parametrize("left", [8, 30, 300, 5000])
def test_all_that_can_be_tried_at_once_fits_into_what_is_left_for_several_iterators(left):
    most = most_threads(KNOBS, left, MACHINE)
    calls, pool = (max(most[name], 0) for name in (CALLS, POOL))
    assert 4 * (calls + pool) <= left
    # Of each thread of a pool AUTOTUNE may make ten calls, each in a thread of the map's own.
    assert 4 * (10 * min(pool, 64) + pool) <= left or not most[UNBOUNDED]


def test_where_there_are_many_threads_left_nothing_is_limited_that_a_space_has():
    most = most_threads(KNOBS, 100_000, MACHINE)
    space = default(KNOBS, MACHINE)
    for name, distribution in space.items():
        largest = {name: max(distribution.choices)}
        assert within(most, largest, space) == largest


def test_one_of_each_may_be_tried_where_there_is_no_room_at_all():
    assert most_threads(KNOBS, 0, MACHINE) == {CALLS: 1, UNBOUNDED: 0, POOL: 1}
    assert set(most_held(extract(images().batch(4).prefetch(-1)), 0).values()) == {1}


IMAGE_BYTES = 100 * 100 * 4


def images():
    def make(number):
        return tf.zeros([100, 100])

    return tf.data.Dataset.range(64).map(make, num_parallel_calls=tf.data.AUTOTUNE)


@pytest.mark.parametrize("room", [10 * IMAGE_BYTES, 100 * IMAGE_BYTES, 10_000 * IMAGE_BYTES])
def test_all_elements_that_can_be_held_at_once_fit_into_the_room(room):
    tree = extract(images().shuffle(2).batch(4).map(lambda batch: batch + 1, num_parallel_calls=1).prefetch(-1))
    most = most_held(tree, room)
    calls, shuffled, batched, ahead = (
        most[name]
        for name in (
            "map[make].num_parallel_calls",
            "shuffle.buffer_size",
            "map[<lambda>].num_parallel_calls",
            "prefetch.buffer_size",
        )
    )
    # A call of the second map holds a batch and makes another. One of each, and what was written, may be at any rate.
    held = [calls * IMAGE_BYTES, shuffled * IMAGE_BYTES, batched * 8 * IMAGE_BYTES, ahead * 4 * IMAGE_BYTES]
    assert sum(held) <= room + 20 * IMAGE_BYTES
    assert sum(held) >= room / 2


def test_a_stage_whose_elements_have_no_known_size_and_a_buffer_of_bytes_are_not_limited(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("a\n")
    rows = tf.data.Dataset.range(9).map(lambda number: tf.zeros([number, 100]), num_parallel_calls=2).prefetch(2)
    lines = tf.data.TextLineDataset(str(file)).prefetch(2)
    assert most_held(extract(rows), 10) == most_held(extract(lines), 10) == {}


@pytest.mark.parametrize(("limit", "value"), [(64, 64), (63, 58), (58, 58), (2, None), (1, None)])
def test_of_a_range_the_largest_below_a_limit_is_taken(limit, value):
    found = within({"calls": limit}, {"calls": 64}, {"calls": IntDistribution(4, 64, step=6)})
    assert found.get("calls") == value


def test_what_the_author_wrote_may_be_proposed():
    written = [Knob(POOL, "size", 500, automatic=0)]
    assert most_threads(written, 40, MACHINE) == {POOL: 500}


@pytest.mark.parametrize("seed", range(3))
def test_a_search_runs_nothing_above_its_limits_and_still_tries_what_is_below(seed):
    most = {CALLS: 20, UNBOUNDED: 0, POOL: 6}
    first = first_tries(KNOBS, MACHINE)
    space = default(KNOBS, MACHINE)
    search = Search(NOW, space, first_tries=first, trials=9, objective="rate", most=most, seed=seed)
    ran = []
    while not search.finished:
        ran.append(dict(search.running))
        search.feed(Window(100 + max(ran[-1][CALLS], 0), 1.0, 0.5))
    assert all(values[name] <= most[name] for values in ran for name in most)
    assert search.incumbent[CALLS] == 16
    assert {values[POOL] for values in ran} >= {0, 4}


def test_a_space_that_is_all_above_the_limits_ends_a_search_with_what_there_was():
    search = Search({"calls": 1}, {"calls": CategoricalDistribution((32, 64))}, most={"calls": 8}, seed=1)
    for _ in range(9):
        search.feed(Window(100, 1.0, 0.5))
    assert search.finished
    assert search.incumbent == {"calls": 1}
    assert not search.trials
