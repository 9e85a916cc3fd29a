"""Knobs are named by their stage, checked against their limits, and set without changing anything else."""

import math
import os

import numpy as np
import pytest
import tensorflow as tf

from autopipe.errors import KnobError
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.knobs import read_knobs, used_knobs, with_knobs, with_thread_pool
from autopipe.pipeline.text import one_line

Dataset = tf.data.Dataset


def load(x):
    return x


def tree():
    branch = Dataset.range(9).map(load, num_parallel_calls=3).interleave(Dataset.range, 4, num_parallel_calls=2)
    return extract(Dataset.zip((branch, Dataset.range(3).map(load, num_parallel_calls=5))).batch(2).prefetch(7))


def test_numbers_of_numpy_become_pythons():
    tree = with_knobs(extract(tf.data.Dataset.range(9).prefetch(3)), {"prefetch.buffer_size": np.int64(5)})
    (knob,) = read_knobs(tree)
    assert (knob.value, type(knob.value)) == (5, int)
    with pytest.raises(KnobError, match="must be a whole number"):
        with_knobs(tree, {"prefetch.buffer_size": np.bool_(True)})


def test_two_stages_of_one_name_are_told_apart():
    assert {knob.name: knob.value for knob in read_knobs(tree())} == {
        "map[load].num_parallel_calls": 3,
        "map[load].use_unbounded_threadpool": 0,
        "interleave[range].num_parallel_calls": 2,
        "map[load]#2.num_parallel_calls": 5,
        "map[load]#2.use_unbounded_threadpool": 0,
        "prefetch.buffer_size": 7,
    }


@pytest.mark.parametrize("value", [np.array([1, 2]), int])
def test_what_only_looks_like_a_number_is_refused(value):
    with pytest.raises(KnobError, match="must be a whole number >= 1"):
        with_knobs(tree(), {"prefetch.buffer_size": value})


def test_only_the_named_knob_is_set():
    changed = with_knobs(tree(), {"map[load]#2.num_parallel_calls": -1})
    assert one_line(changed) == one_line(tree()).replace("calls=5", "calls=AUTOTUNE")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("map[save].num_parallel_calls", 1, "but got 'map\\[save\\].num_parallel_calls'"),
        ("prefetch.buffer_size", 0, ">= 1 and <= 2,147,483,647, or -1 to leave it to TensorFlow, but got 0"),
        ("prefetch.buffer_size", 10**12, "but got 1000000000000"),
        ("map[load].num_parallel_calls", 20_000, "<= 10,000, or -1"),
        ("interleave[range].num_parallel_calls", 5, ">= 1 and <= 4, or -1"),
        ("map[load].use_unbounded_threadpool", 2, "must be a whole number >= 0 and <= 1, but got 2"),
        ("map[load].use_unbounded_threadpool", True, "but got True"),
    ],
)
def test_what_tensorflow_would_not_take_is_refused(name, value, words):
    with pytest.raises(KnobError, match=words):
        with_knobs(tree(), {name: value})


def knobs_of(dataset):
    return {knob.name: knob for knob in read_knobs(extract(dataset))}


def with_options(dataset, deterministic):
    options = tf.data.Options()
    options.deterministic = deterministic
    return dataset.with_options(options)


def interleaved(**arguments):
    return Dataset.range(9).interleave(Dataset.range, **{"cycle_length": 3, "num_parallel_calls": 2, **arguments})


def test_what_is_read_in_turn_is_a_knob_for_the_next_iterator_where_the_order_is_free():
    knobs = knobs_of(interleaved(deterministic=False, block_length=4))
    cycle, block = (knobs[f"interleave[range].{name}_length"] for name in ("cycle", "block"))
    assert (cycle.value, cycle.live, cycle.accepts(-1)) == (3, False, False)
    assert (block.value, block.live) == (4, False)
    assert [cycle.accepts(number) for number in (2, 3, 9)] == [False, True, True]
    assert [block.accepts(number) for number in (1, 4, 5)] == [True, True, False]
    assert knobs["interleave[range].num_parallel_calls"].most is None
    assert "interleave[range].cycle_length" in knobs_of(with_options(interleaved(), False).batch(2))


@pytest.mark.parametrize(
    "dataset",
    [
        interleaved(),
        interleaved(num_parallel_calls=None, deterministic=None),
        interleaved(deterministic=True),
        with_options(interleaved(deterministic=True), False),
        with_options(interleaved(deterministic=False), True),
        with_options(interleaved(), True),
    ],
    ids=["default", "sequential", "asked for", "asked for here", "asked for the whole", "asked for by options"],
)
def test_what_is_read_in_turn_is_no_knob_where_an_order_is_kept(dataset):
    assert "interleave[range].cycle_length" not in knobs_of(dataset)


def test_what_is_read_in_turn_is_mixed_no_less_than_its_author_declared_after_a_change_either():
    tree = with_knobs(extract(interleaved(deterministic=False, block_length=4)), {"interleave[range].cycle_length": 9})
    tree = with_knobs(tree, {"interleave[range].block_length": 1})
    knobs = {knob.field: knob for knob in read_knobs(tree)}
    assert knobs["cycle_length"].least == 3
    assert knobs["block_length"].most == 4


def endless(x):
    return Dataset.from_tensors(x).repeat()


@pytest.mark.parametrize(
    "dataset",
    [
        Dataset.range(4).interleave(endless, 4, num_parallel_calls=2, deterministic=False),
        interleaved(deterministic=False).batch(4).take(2),
        interleaved(deterministic=False).skip(2),
        interleaved(deterministic=False).take_while(lambda x: x < 4),
        Dataset.zip((interleaved(deterministic=False), Dataset.range(3))),
    ],
    ids=["of what never ends", "of which some are taken", "of which some are not", "until one", "beside fewer"],
)
def test_what_is_read_in_turn_is_no_knob_where_it_decides_which_elements_there_are(dataset):
    assert "interleave[range].cycle_length" not in knobs_of(dataset)
    assert not any(name.endswith(("cycle_length", "block_length")) for name in knobs_of(dataset))


def test_op_determinism_fixes_the_order():
    from tensorflow.python.framework import config

    free = interleaved(deterministic=False)
    config.enable_op_determinism()
    try:
        assert "interleave[range].cycle_length" not in knobs_of(free)
    finally:
        config.disable_op_determinism()


def test_more_calls_than_the_cycle_are_not_made():
    tree = with_knobs(extract(interleaved(deterministic=False)), {"interleave[range].num_parallel_calls": 50})
    assert len(list(build(tree))) == 36
    assert len(list(build(with_knobs(tree, {"interleave[range].cycle_length": 5})))) == 36


@pytest.mark.parametrize("calls", [tf.data.AUTOTUNE, 1, 2])
def test_a_cycle_left_to_tensorflow_stays_as_tensorflow_took_it_with_other_calls(calls):
    dataset = interleaved(cycle_length=None, num_parallel_calls=calls)
    processors = len(os.sched_getaffinity(0))
    cycle = math.ceil(processors / 3) if calls == tf.data.AUTOTUNE else min(calls, processors)
    for other in range(1, processors + 1):
        changed = with_knobs(extract(dataset), {"interleave[range].num_parallel_calls": other})
        assert changed.cycle_length == cycle or other == calls
        assert [int(x) for x in build(changed)] == [int(x) for x in dataset]
        assert with_knobs(changed, {"interleave[range].num_parallel_calls": processors})


def test_a_shuffle_may_hold_more_than_its_author_declared_and_never_less():
    tree = extract(Dataset.range(90).shuffle(20))
    larger = with_knobs(tree, {"shuffle.buffer_size": 50})
    (knob,) = read_knobs(larger)
    assert (knob.value, knob.least, knob.live) == (50, 20, False)
    assert one_line(larger) == "range(0, 90) | shuffle(50)"
    assert with_knobs(larger, {"shuffle.buffer_size": 20}) == tree
    with pytest.raises(KnobError, match="must be a whole number >= 20 and <= 100,000,000, but got 19"):
        with_knobs(larger, {"shuffle.buffer_size": 19})


@pytest.mark.parametrize(
    "dataset",
    [
        Dataset.range(9).shuffle(5, seed=1),
        Dataset.range(9).shuffle(5, reshuffle_each_iteration=False),
        Dataset.range(9).shuffle(1),
        Dataset.range(9).shuffle(tf.data.UNKNOWN_CARDINALITY),
        Dataset.range(9).repeat().shuffle(5),
        with_options(Dataset.range(9).shuffle(5), True),
    ],
    ids=["seeded", "one order", "no order", "all", "many epochs", "one order asked for"],
)
def test_a_shuffle_holds_what_its_author_declared_where_more_could_be_seen(dataset):
    assert not read_knobs(extract(dataset))


def test_a_reader_has_a_knob_in_bytes_whose_value_is_what_tensorflow_takes():
    from tensorflow.python.data.ops import readers

    knobs = knobs_of(tf.data.TextLineDataset(["a"]))
    assert knobs["text_files.buffer_size"].value == readers._DEFAULT_READER_BUFFER_SIZE_BYTES
    tree = extract(tf.data.FixedLengthRecordDataset(["a"], 4, buffer_size=100))
    assert with_knobs(tree, {"fixed_length_files.buffer_size": 7}).buffer_size == 7
    assert with_knobs(tree, {"fixed_length_files.buffer_size": 100}) is tree
    assert "tfrecord_files.buffer_size" in knobs_of(tf.data.TFRecordDataset(["a"]).repeat(2))


def test_threads_of_one_operation_are_a_knob_unless_the_author_chose_them():
    tree = ir.ThreadPool(input=extract(Dataset.range(9)))
    threading = build(with_knobs(tree, {"thread_pool.max_intra_op_parallelism": 3})).options().threading
    assert (threading.max_intra_op_parallelism, threading.private_threadpool_size) == (3, None)
    options = tf.data.Options()
    options.threading.max_intra_op_parallelism = 2
    chosen = ir.ThreadPool(input=extract(Dataset.range(9).with_options(options)))
    assert [knob.name for knob in read_knobs(chosen)] == ["thread_pool.size"]


def test_a_thread_pool_that_the_author_chose_gets_no_other():
    options = tf.data.Options()
    options.threading.private_threadpool_size = 2
    tree = extract(Dataset.range(9).with_options(options).batch(2))
    assert with_thread_pool(tree) is tree


def test_the_pool_of_a_map_changes_under_an_iterator_only_where_no_batch_is_made_with_it():
    mapped = Dataset.range(9).map(load, num_parallel_calls=3)
    name = "map[load].use_unbounded_threadpool"
    assert not knobs_of(mapped.batch(2))[name].live
    assert not knobs_of(unordered_batch(mapped))[name].live
    assert knobs_of(mapped.prefetch(1).batch(2))[name].live
    assert with_knobs(extract(mapped), {name: 1}).use_unbounded_threadpool is True


def unordered_batch(dataset):
    return with_options(dataset, False).batch(2)


@pytest.mark.parametrize(
    "dataset",
    [
        Dataset.range(9).map(lambda x: x + 1),
        Dataset.range(9).batch(2, num_parallel_calls=2),
        tf.data.TFRecordDataset(["a", "b"], num_parallel_reads=2),
        Dataset.range(9).unique(),
    ],
    ids=["a sequential function", "parallel batches", "parallel reads", "a stage nobody knows"],
)
def test_a_thread_pool_is_used_where_something_may_run_in_it(dataset):
    names = {knob.name for knob in used_knobs(with_thread_pool(extract(dataset)))}
    assert names >= {"thread_pool.size", "thread_pool.max_intra_op_parallelism"}


def test_a_thread_pool_in_which_nothing_runs_is_not_used():
    tree = with_thread_pool(extract(Dataset.range(9).batch(2).cache().repeat().prefetch(2)))
    assert [knob.name for knob in used_knobs(tree)] == ["prefetch.buffer_size"]


def test_a_stage_that_the_pipeline_uses_twice_has_its_knobs_once_and_stays_one():
    shuffled = Dataset.range(9).shuffle(9, seed=3).map(load, num_parallel_calls=3)
    tree = extract(Dataset.zip((shuffled, shuffled)))
    assert [knob.name for knob in read_knobs(tree)] == [
        "map[load].num_parallel_calls",
        "map[load].use_unbounded_threadpool",
    ]
    changed = with_knobs(tree, {"map[load].num_parallel_calls": 4})
    assert changed.parts[0] is changed.parts[1]
    assert changed.parts[0].input is tree.parts[0].input
    # As plans of earlier releases have it.
    again = with_knobs(tree, {"map[load].num_parallel_calls": 4, "map[load]#2.num_parallel_calls": 4})
    assert again == changed


def test_nothing_is_made_anew_where_nothing_changes():
    one = tree()
    assert with_knobs(one, {knob.name: knob.value for knob in read_knobs(one)}) is one
