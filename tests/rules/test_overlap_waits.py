import os
import subprocess
import sys
import time

import pytest
import tensorflow as tf

import autopipe
from autopipe.rules import Keeps
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "overlap_waits"
RANGE = tf.data.Dataset.range(50)
WIDE = "range(0, 50) | map(fetch, calls=64, unbounded=True)"


@autopipe.stateless
def wait(x):
    time.sleep(0.01)
    return x


def fetch(x):
    return tf.ensure_shape(tf.numpy_function(wait, [x], tf.int64), ())


def noisy(x):
    return fetch(x) + tf.random.uniform((), 0, 9, tf.int64)


def seeded(x):
    return fetch(x) + tf.random.uniform((), 0, 9, tf.int64, seed=7)


def computing(x):
    return x + 1


@autopipe.stateless
def spin(x):
    return sum(range(20_000)) * 0 + x


def spinning(x):
    return tf.ensure_shape(tf.numpy_function(spin, [x], tf.int64), ())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize("calls", [None, tf.data.AUTOTUNE])
def test_lets_many_calls_wait_at_once_and_keeps_their_order(keeps, calls):
    assert_rewrites(RULE, RANGE.map(fetch, num_parallel_calls=calls), WIDE, keeps)


@pytest.mark.parametrize("working", [(1e-3, 0.9e-3), (1e-4, 1e-6)])
def test_leaves_a_function_that_works_most_of_the_time_or_takes_none(working):
    done = apply(RULE, RANGE.map(fetch), answers=Answers(working=working))
    assert done.after == done.before
    assert not done.refusals


def test_refuses_results_that_take_much_memory_together():
    large = Answers(element_bytes=lambda node: 10 * 2**20, ram_budget=10**9)
    assert_refuses(RULE, RANGE.map(fetch), "64 elements at once take 640 MiB; 238 MiB is allowed", answers=large)


def test_refuses_where_it_is_not_faster():
    assert_refuses(RULE, RANGE.map(fetch), "measured 1.01x", answers=Answers(speed=(1.01, 0.9, 1.2)))


def test_refuses_code_of_which_nobody_declares_that_it_keeps_no_state():
    undeclared = RANGE.map(lambda x: tf.numpy_function(lambda value: value, [x], tf.int64))
    assert_refuses(RULE, undeclared, "runs Python code (PyFunc), and this would change when it does")


def test_refuses_to_run_code_upstream_ahead():
    spec = tf.TensorSpec((), tf.int64)
    generated = tf.data.Dataset.from_generator(lambda: iter(range(9)), output_signature=spec)
    assert_refuses(RULE, generated.map(fetch), "the generator runs Python code (PyFunc), and it would run ahead")


def test_random_draws_may_go_to_other_elements_only_where_training_is_what_counts():
    assert apply(RULE, RANGE.map(noisy)).steps[0].keeps is Keeps.TRAINING
    assert_refuses(RULE, RANGE.map(noisy), "keeps=elements fixes when it does", Keeps.ELEMENTS)


def test_leaves_the_number_of_calls_that_an_author_chose():
    assert_no_match(RULE, RANGE.map(fetch, num_parallel_calls=4))


@pytest.mark.parametrize("function", [seeded, computing])
def test_leaves_draws_that_must_keep_their_order_and_what_waits_for_nobody(function):
    assert_no_match(RULE, RANGE.map(function))


@pytest.mark.timed
def test_who_waits_for_a_core_that_others_have_is_not_taken_for_waiting():
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * os.cpu_count())]
    try:
        done = autopipe.optimize(RANGE.map(spinning), rules=[RULE])
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert not done.plan.rules


@pytest.mark.timed
@pytest.mark.parametrize(("function", "waits"), [(fetch, True), (spinning, False)])
def test_waiting_is_told_from_work_on_real_elements(function, waits):
    done = autopipe.optimize(RANGE.map(function), rules=[RULE])
    assert (RULE in done.plan.rules) is waits
    assert list(done.as_numpy_iterator()) == list(RANGE.map(function).as_numpy_iterator())
