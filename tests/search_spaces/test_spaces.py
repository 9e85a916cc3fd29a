"""The named spaces: within the limits of the knobs, of the cores and memory of the machine."""

import pytest
import tensorflow as tf

import autopipe
from autopipe.errors import ArgumentError
from autopipe.pipeline.knobs import Knob, read_knobs
from autopipe.planning.memory.machine import Machine
from autopipe.search_spaces import SPACES, by_name, choices, default, low_memory, remote_storage, throughput

Dataset = tf.data.Dataset
CALLS = Knob("map[load].num_parallel_calls", "num_parallel_calls", -1)


def machine(cores=4.0, available=2**33):
    return Machine(cores=cores, memory_bytes=2**34, available_bytes=available, host="here")


def pipeline():
    files = tf.data.TFRecordDataset(["a"]).map(length, num_parallel_calls=2)
    made = files.interleave(up_to, 2, num_parallel_calls=2, deterministic=False).shuffle(100).batch(2)
    return autopipe.optimize(made.prefetch(3), rules=(), seconds=0)


def length(x):
    return tf.strings.length(x)


def up_to(x):
    return Dataset.range(tf.cast(x, tf.int64))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cores", [0.5, 2, 64])
@pytest.mark.parametrize("name", SPACES)
def test_the_pipeline_takes_every_value_of_a_space(name, cores):
    dataset = pipeline()
    space = SPACES[name](read_knobs(dataset.tree), machine(cores))
    assert space
    for knob, distribution in space.items():
        for value in distribution.choices:
            dataset.retune({knob: value})


def test_the_default_has_the_knobs_that_matter_and_no_others():
    knobs = read_knobs(pipeline().tree)
    fields = {knob.field for knob in knobs if knob.name in default(knobs, machine())}
    assert fields == {"num_parallel_calls", "use_unbounded_threadpool", "cycle_length", "buffer_size", "size"}
    buffers = [name for name in default(knobs, machine()) if name.endswith("buffer_size")]
    assert buffers == ["prefetch.buffer_size"]


def test_throughput_has_all_knobs():
    knobs = read_knobs(pipeline().tree)
    assert set(throughput(knobs, machine(4))) == {knob.name for knob in knobs}


def test_remote_storage_reaches_far_above_the_cores():
    knobs = read_knobs(pipeline().tree)
    space = remote_storage(knobs, machine(4))
    for name in ("map[length].num_parallel_calls", "interleave[up_to].cycle_length", "thread_pool.size"):
        assert max(space[name].choices) == 256
    assert "tfrecord_files.buffer_size" in space


def test_low_memory_has_small_buffers_and_no_more_calls_than_cores():
    knobs = read_knobs(pipeline().tree)
    space = low_memory(knobs, machine(3))
    assert space["map[length].num_parallel_calls"].choices == (1, 2, 3)
    assert space["prefetch.buffer_size"].choices == (1, 2)
    assert max(space["tfrecord_files.buffer_size"].choices) <= 2**17
    assert not any(-1 in distribution.choices for distribution in space.values())


@pytest.mark.parametrize("space", [remote_storage, throughput])
def test_the_buffers_of_all_files_fit_into_the_memory_there_is(space):
    knobs = read_knobs(pipeline().tree)
    for available in (2**30, 2**36):
        found = space(knobs, machine(4, available))
        most_files = max(found["interleave[up_to].cycle_length"].choices)
        assert most_files * max(found["tfrecord_files.buffer_size"].choices) <= available / 4


def test_a_knob_keeps_to_its_limits_its_value_and_the_choice_of_tensorflow():
    knob = Knob("interleave[read].num_parallel_calls", "num_parallel_calls", 3, most=5)
    assert default([knob], machine(2))[knob.name].choices == (-1, 1, 2, 3, 4)
    assert not choices(
        [Knob("batch.num_parallel_calls", "num_parallel_calls", 1, most=1)], {"batch*": (1,)}, strict=True
    )


def test_the_first_pattern_that_matches_a_knob_holds():
    found = choices([CALLS], {"map[load].*": (2,), "*": (8,)}, strict=True)
    assert found[CALLS.name].choices == (2,)


def test_a_space_is_found_by_its_name_and_a_wrong_one_is_named(tmp_path):
    assert by_name("throughput") is throughput
    file = tmp_path / "own.toml"
    file.write_text('[[knob]]\nmatch = "*calls"\nvalues = [3]')
    for path in (file, str(file)):
        assert by_name(path)([CALLS], machine())[CALLS.name].choices == (3,)
    with pytest.raises(
        ArgumentError, match="must be one of default, .* ends in .toml, or a function .*, but got 'fast'"
    ):
        by_name("fast")
