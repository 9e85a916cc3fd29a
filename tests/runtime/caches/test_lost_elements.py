"""What reads further ahead of a memory cache than its author let it makes no cache lack an element that failed."""

import time

import pytest
import tensorflow as tf
from awaiting import wait_until
from failing_elements import failing_at
from retuning import flat

import autopipe
from autopipe.optimizer import Rewriting, Step, rewrite
from autopipe.pipeline import ir
from autopipe.pipeline.extract import extract
from autopipe.planning.plans.plan import Plan
from autopipe.rules import Keeps
from autopipe.runtime.caches.lost_elements import reads_further_ahead
from autopipe.runtime.dataset import OptimizedDataset
from sides import Answers, named

Dataset = tf.data.Dataset


def add_one(x):
    return x + 1


def checked(x):
    tf.debugging.assert_less(x, 100.0)
    return x


def test_in_a_cache_that_its_author_wrote_what_failed_stays_missing_as_it_did():
    seen = []

    def once(x):
        seen.append(int(x))
        if seen == [0, 1, 2]:
            raise ValueError("only this time")
        return x

    failing = Dataset.range(6).map(lambda x: tf.ensure_shape(tf.py_function(once, [x], tf.int64), []))
    dataset = autopipe.optimize(failing.cache().prefetch(10), rules=(), seconds=0)
    iterator = iter(dataset)
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(iterator)
    assert [int(x) for x in iterator] == [3, 4, 5]
    assert flat(dataset) == [0, 1, 3, 4, 5]


@pytest.mark.parametrize("rule", ["overlap_waits", "parallel_calls_ahead", "parallel_interleave"])
def test_an_element_that_failed_is_not_missing_from_the_cache_of_its_author_where_a_rule_reads_ahead(rule):
    bad = tf.Variable(5, dtype=tf.int64)
    checked = Dataset.range(30).filter(lambda x: x >= 0).map(failing_at(bad))

    def after(calls):
        if rule == "parallel_interleave":
            return checked.cache().interleave(Dataset.from_tensors, cycle_length=32, num_parallel_calls=calls)
        return checked.cache().map(add_one, num_parallel_calls=calls)

    written, tree = after(None), extract(after(32))
    step = Step(rule, "", "", Keeps.SEQUENCE, (), tree, 0)
    dataset = OptimizedDataset(written, Rewriting(extract(written), tree, (step,), ()), Plan("none"))
    for _epoch in range(3):
        iterator = iter(dataset)
        with pytest.raises(tf.errors.InvalidArgumentError):
            list(iterator)
        time.sleep(0.1)  # The calls go on meanwhile.
    bad.assign(-1)
    for _epoch in range(2):
        assert len(flat(dataset)) == 30
    assert dataset.caches_are_full


TEXTS = [str(number) if number != 5 else "five" for number in range(30)]
NUMBERS = {
    "known": lambda: Dataset.from_tensor_slices(TEXTS).map(tf.strings.to_number),
    "unknown": lambda: Dataset.from_tensor_slices(TEXTS).filter(lambda x: x != "").map(tf.strings.to_number),
}


def read_until_it_fails(dataset, between=lambda: None):
    iterator = iter(dataset)
    with pytest.raises(tf.errors.InvalidArgumentError):
        for number, _ in enumerate(iterator):
            if number == 1:
                between()
    time.sleep(0.1)  # What is read ahead goes on meanwhile.
    del iterator


RAISED = {
    "retune": lambda dataset: dataset.retune({"prefetch.buffer_size": 64}),
    "retune_next": lambda dataset: dataset.retune_next({"prefetch.buffer_size": 64}),
    "try_out_next": lambda dataset: dataset.try_out_next({"prefetch.buffer_size": 64}),
    "to AUTOTUNE": lambda dataset: dataset.retune({"map[add_one].num_parallel_calls": -1}),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("how", RAISED)
def test_an_element_that_failed_is_not_missing_from_the_cache_of_its_author_once_more_is_read_ahead(how, number):
    written = NUMBERS[number]().cache().map(add_one, num_parallel_calls=2).prefetch(1)
    dataset = autopipe.optimize(written, rules=(), seconds=0)
    read_until_it_fails(dataset, lambda: RAISED[how](dataset))
    for _epoch in range(3):
        read_until_it_fails(dataset)
    assert not dataset.caches_are_full


@pytest.mark.one_in(2)
@pytest.mark.parametrize("number", NUMBERS)
def test_an_element_that_failed_is_not_missing_where_a_plan_reads_further_ahead(number):
    written = NUMBERS[number]().cache().prefetch(1)
    tuned = autopipe.optimize(written, rules=(), seconds=0)
    tuned.retune({"prefetch.buffer_size": 64})
    dataset = autopipe.optimize(written, plan=tuned.plan)
    for _epoch in range(3):
        read_until_it_fails(dataset)


def test_an_iterator_that_fills_the_cache_of_its_author_is_retuned_where_the_number_of_elements_is_known():
    calls = []

    @autopipe.stateless
    def count(x):
        calls.append(int(x))
        return x

    def counting(x):
        return tf.ensure_shape(tf.py_function(count, [x], tf.int64), [])

    dataset = autopipe.optimize(Dataset.range(30).map(counting).cache().prefetch(1), rules=(), seconds=0)
    iterator = iter(dataset)
    seen = [int(next(iterator))]
    dataset.retune({"prefetch.buffer_size": 64})
    seen.append(int(next(iterator)))
    wait_until(lambda: len(set(calls)) == 30)
    assert seen + [int(x) for x in iterator] == list(range(30)) == flat(dataset)
    assert dataset.caches_are_full
    made = len(calls)
    assert flat(dataset) == list(range(30))
    assert len(calls) == made


@pytest.fixture
def records(tmp_path):
    path = str(tmp_path / "numbers")
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(20):
            writer.write(str(number))
    return tf.data.TFRecordDataset(path).map(tf.strings.to_number)


def fit_twice(dataset):
    for _fit in range(2):
        iterator = iter(dataset)
        for _step in range(21):
            next(iterator)


def without_end(elements):
    """Nobody comes to its end, and nobody knows how many there are in a pass."""
    return elements.repeat().filter(lambda x: tf.size(x) > 0)


def test_a_cache_of_the_author_under_an_endless_repeat_is_filled_once_where_a_plan_reads_further_ahead(records):
    written = without_end(records.cache()).batch(4).prefetch(1)
    tuned = autopipe.optimize(written, rules=(), seconds=0)
    tuned.retune({"prefetch.buffer_size": 8})
    dataset = autopipe.optimize(written, plan=tuned.plan)
    fit_twice(dataset)
    assert dataset.caches_are_full


@pytest.mark.parametrize(("after", "full"), [(tf.math.sin, True), (tf.strings.as_string, True), (checked, False)])
def test_a_cache_of_the_author_that_was_moved_is_filled_once_unless_more_may_fail_before_it(records, after, full):
    written, tree = without_end(records.cache().map(after)), extract(without_end(records.map(after).cache()))
    step = Step("cache_after_map", "", "", Keeps.SEQUENCE, (), tree, 0)
    dataset = OptimizedDataset(written, Rewriting(extract(written), tree, (step,), ()), Plan("none"))
    fit_twice(dataset)
    assert dataset.caches_are_full is full


@pytest.mark.parametrize(
    ("times", "full"), [(lambda _: 2, True), (lambda x: tf.where(x < 0, 1, 2), False)], ids=["one shape", "any shape"]
)
def test_batches_that_cannot_fail_are_cached_once(records, times, full):
    pairs = records.map(lambda x: tf.tile([x], [times(x)]))
    written, tree = without_end(pairs.cache().batch(4)), extract(without_end(pairs.batch(4).cache()))
    step = Step("cache_after_batch", "", "", Keeps.SEQUENCE, (), tree, 0)
    dataset = OptimizedDataset(written, Rewriting(extract(written), tree, (step,), ()), Plan("none"))
    fit_twice(dataset)
    assert dataset.caches_are_full is full


def test_a_smaller_number_leaves_the_cache_of_its_author_to_whoever_reads_it(records):
    dataset = autopipe.optimize(records.cache().repeat().prefetch(8), rules=(), seconds=0)
    dataset.retune({"prefetch.buffer_size": 2})
    list(dataset.take(40))
    iterator = iter(dataset)
    for _step in range(40):
        next(iterator)
    assert dataset.caches_are_full


def test_a_stage_reads_further_ahead_of_a_cache_only_where_one_before_it_may_fail():
    def tree(elements, size):
        return extract(elements.cache().map(add_one, num_parallel_calls=size))

    sure, failing = Dataset.range(3), Dataset.range(3).map(lambda x: 6 // x)
    assert not reads_further_ahead(tree(sure, 8), tree(sure, 1))
    assert reads_further_ahead(tree(failing, 8), tree(failing, 1))
    assert reads_further_ahead(tree(failing, 8), tree(failing, tf.data.AUTOTUNE))
    assert reads_further_ahead(tree(failing, tf.data.AUTOTUNE), tree(failing, 8))
    assert not reads_further_ahead(tree(failing, tf.data.AUTOTUNE), tree(failing, tf.data.AUTOTUNE))


def test_what_is_read_ahead_before_a_cache_is_its_authors_affair():
    def tree(size):
        return extract(Dataset.range(3).map(lambda x: 6 // x, num_parallel_calls=size).prefetch(size).cache())

    assert not reads_further_ahead(tree(8), tree(1))


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_what_is_optimized_again_lacks_no_element_that_failed(times):
    written = Dataset.from_tensor_slices(["1"] * 30 + ["x"] + ["1"] * 2).map(tf.strings.to_number)
    before = extract(written)
    tree = ir.Prefetch(input=ir.Cache(input=before), buffer_size=8)
    step = Step("cache_fixed_work", "", "", Keeps.SEQUENCE, (), tree, 0)
    dataset = OptimizedDataset(written, Rewriting(before, tree, (step,), ()), Plan("none"))
    if times == 2:
        dataset = autopipe.optimize(dataset, rules=(), seconds=0)
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError):
            flat(dataset)
        # The prefetch goes on after the error.
        time.sleep(0.1)


def test_a_cache_that_keeps_less_than_its_author_let_it_lacks_no_element_that_failed():
    written = Dataset.from_tensor_slices(TEXTS).map(tf.strings.to_number).cache().take(9).prefetch(8)
    done = rewrite(
        extract(written), rules=(named("select_before_cache"),), keeps=Keeps.TRAINING, measurements=Answers()
    )
    assert [step.rule for step in done.steps] == ["select_before_cache"]
    dataset = OptimizedDataset(written, done, Plan("none"))
    for _epoch in range(3):
        read_until_it_fails(dataset)
    assert not dataset.caches_are_full
