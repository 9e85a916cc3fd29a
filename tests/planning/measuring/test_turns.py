"""What runs ahead of its turn is little, and known."""

import itertools
import time

import numpy as np
import tensorflow as tf

from autopipe.pipeline.extract import extract
from autopipe.planning.measuring.turns import (
    elements_in_one_turn,
    taking_turns,
    without_autotune,
    without_last_prefetch,
)
from autopipe.planning.memory.machine import Machine

Dataset = tf.data.Dataset


def test_what_autotune_would_choose_is_fixed_to_a_call_for_each_core_and_one_element_ahead():
    calls = round(Machine.here().cores)
    fixed = [
        Dataset.range(9).map(tf.square),
        Dataset.range(9).map(tf.square, tf.data.AUTOTUNE),
        Dataset.range(9).batch(2, num_parallel_calls=tf.data.AUTOTUNE),
        Dataset.range(9).interleave(Dataset.range, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE),
    ]
    assert [without_autotune(extract(each)).num_parallel_calls for each in fixed] == [calls] * len(fixed)
    left = [
        Dataset.range(9).map(tf.square, 5),
        Dataset.range(9).map(lambda x: tf.random.uniform(())),
        Dataset.range(9).map(tf.square, tf.data.AUTOTUNE, use_unbounded_threadpool=True),
    ]
    assert all(without_autotune(extract(each)) == extract(each) for each in left)
    assert without_autotune(extract(Dataset.range(9).prefetch(tf.data.AUTOTUNE))).buffer_size == 1


def test_as_many_calls_are_made_as_the_author_chose_threads():
    options = tf.data.Options()
    options.threading.private_threadpool_size = 7
    written = Dataset.range(9).map(tf.square, tf.data.AUTOTUNE).with_options(options)
    assert without_autotune(extract(written)).inputs[0].num_parallel_calls == 7


def test_of_half_a_core_one_call_is_made(monkeypatch):
    half = Machine(cores=0.5, memory_bytes=2**34, available_bytes=2**33, host="here")
    monkeypatch.setattr(Machine, "here", lambda: half)
    tree = extract(Dataset.range(8).map(tf.square, tf.data.AUTOTUNE))
    assert without_autotune(tree).num_parallel_calls == 1


def test_of_so_many_elements_the_last_is_given():
    four = taking_turns(extract(Dataset.range(12).repeat()), each=4)
    assert [int(x) for x in itertools.islice(four, 4)] == [3, 7, 11, 3]


def test_a_turn_has_more_elements_the_less_time_each_takes():
    slow = Dataset.range(10).map(lambda x: tf.numpy_function(lambda y: (time.sleep(0.01), y)[1], [x], tf.int64))
    assert elements_in_one_turn(extract(slow.repeat())) == 1
    assert elements_in_one_turn(extract(Dataset.from_tensors(np.ones(3)).repeat())) > 1


def test_prefetches_at_the_end_are_left_out_and_others_stay():
    written = Dataset.range(9).prefetch(3).map(tf.square)
    assert without_last_prefetch(extract(written.prefetch(2).prefetch(4))) == extract(written)


def test_what_takes_turns_is_without_autotune_unless_that_has_a_number_left_to_choose_or_was_asked_for():
    def has_autotune(dataset):
        return taking_turns(extract(dataset.repeat())).options().autotune.enabled is not False

    assert not has_autotune(Dataset.range(9).map(tf.square, tf.data.AUTOTUNE).batch(2).prefetch(tf.data.AUTOTUNE))
    asked = tf.data.Options()
    asked.autotune.enabled = True
    assert has_autotune(Dataset.range(9).with_options(asked))
    assert has_autotune(Dataset.range(9).map(tf.square, tf.data.AUTOTUNE, use_unbounded_threadpool=True))
    assert has_autotune(Dataset.range(9).interleave(Dataset.range, num_parallel_calls=tf.data.AUTOTUNE))


def test_tensorflow_looks_for_something_to_rewrite_only_where_there_may_be_something():
    def is_rewritten(dataset):
        options = taking_turns(extract(dataset.repeat())).options()
        return options.experimental_optimization.apply_default_optimizations is not False

    arrays = Dataset.from_tensor_slices(np.ones(9)).cache()
    assert not is_rewritten(arrays.map(tf.square))
    assert is_rewritten(arrays.map(tf.square).batch(2))
    assert is_rewritten(arrays.filter(lambda x: x > 0))
    assert is_rewritten(arrays.map(lambda x: tf.random.uniform(()), tf.data.AUTOTUNE, use_unbounded_threadpool=True))
