"""What a search tries first: many calls and threads, fewer, and little; within limits, and in the default space."""

import pytest

from autopipe.pipeline.knobs import Knob
from autopipe.planning.memory.machine import Machine
from autopipe.search_spaces import default
from autopipe.tuning.search.first_tries import first_tries

KNOBS = (
    Knob("map[load].num_parallel_calls", "num_parallel_calls", -1),
    Knob("map[load].use_unbounded_threadpool", "use_unbounded_threadpool", 0, automatic=0, most=1, least=0),
    Knob("interleave[read].num_parallel_calls", "num_parallel_calls", 2, most=4),
    Knob("shuffle.buffer_size", "buffer_size", 100, automatic=None, least=100, live=False),
    Knob("prefetch.buffer_size", "buffer_size", 8),
    Knob("thread_pool.size", "size", 0, automatic=0),
)
NOW = {knob.name: knob.value for knob in KNOBS}


def machine(cores):
    return Machine(cores=cores, memory_bytes=2**34, available_bytes=2**33, host="here")


def test_ever_fewer_calls_and_threads_come_first_and_then_a_lean_setting():
    def at_once(calls, threads):
        names = ("map[load].num_parallel_calls", "interleave[read].num_parallel_calls", "thread_pool.size")
        return {**NOW, **dict(zip(names, (calls, min(calls, 4), threads), strict=True))}

    assert first_tries(KNOBS, machine(2)) == [
        at_once(64, 64),
        {**at_once(-1, 16), "interleave[read].num_parallel_calls": -1, "map[load].use_unbounded_threadpool": 1},
        at_once(32, 4),
        at_once(2, 2),
        {**at_once(1, 0), "prefetch.buffer_size": 1},
    ]


@pytest.mark.parametrize("cores", [0.5, 1, 3, 6, 48])
def test_what_they_change_is_in_the_default_space(cores):
    space = default(KNOBS, machine(cores))
    found = first_tries(KNOBS, machine(cores))
    assert found
    for seed in found:
        for name, value in seed.items():
            assert value == NOW[name] or value in space[name].choices or value == KNOBS[2].most


def test_none_is_what_there_is_already_and_none_comes_twice():
    assert first_tries([], machine(4)) == []
    one = Knob("batch.num_parallel_calls", "num_parallel_calls", 1, most=1)
    assert first_tries([one], machine(4)) == []
