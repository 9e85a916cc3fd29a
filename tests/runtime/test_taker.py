"""No thread changes an iterator while another one takes its elements."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorflow as tf
from retuning import follows, listening, setting

import autopipe
from autopipe.runtime.taker import Taker

Dataset = tf.data.Dataset
COUNT = 600
pytestmark = pytest.mark.usefixtures("as_fast")


def work(x):
    return tf.reduce_sum(tf.fill([100], x)) // 100


def dataset():
    return autopipe.optimize(Dataset.range(COUNT).shuffle(50).map(work), seconds=0)


def test_whoever_asks_for_an_optional_takes_an_element_too():
    iterator, taker = iter(Dataset.range(3)), Taker()
    taker.take_note(iterator)
    with ThreadPoolExecutor(1) as pool:
        assert int(pool.submit(iterator.get_next_as_optional).result().get_value()) == 0
        with taker.kept_waiting() as is_here:
            assert not is_here
    assert int(next(iterator)) == 1


def test_an_iterator_that_nobody_else_holds_gives_an_optional_and_its_next():
    assert int(iter(dataset()).get_next_as_optional().get_value()) < COUNT
    kept = iter(dataset()).get_next
    assert int(kept()) < COUNT


def test_an_iterator_is_gone_with_its_last_name():
    iterator = iter(dataset())
    gone = weakref.ref(iterator)
    next(iterator)
    gc.disable()
    try:
        del iterator
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("asked_here", [False, True], ids=["asked for there", "asked for here"])
def test_an_iterator_that_another_thread_reads_is_not_retuned(asked_here):
    data = dataset()
    source = iter(data) if asked_here else data
    begun, retuned, over = threading.Event(), threading.Event(), threading.Event()

    def read():
        taken = []
        for element in source:
            begun.set()
            if len(taken) == 9:
                retuned.wait(10)
            taken.append(int(element))
        over.set()
        return taken

    with ThreadPoolExecutor() as pool:
        reading = pool.submit(read)
        begun.wait()
        step = 0
        while not over.is_set():
            step += 1
            data.retune(setting(data, step))
            retuned.set()
    assert step > 0
    assert sorted(reading.result()) == list(range(COUNT))


def test_it_goes_on_as_it_is_and_the_next_one_has_the_knobs():
    data = dataset()
    with listening() as readings, ThreadPoolExecutor(1) as pool:
        iterator = pool.submit(iter, data).result()
        pool.submit(next, iterator).result()
        before = dict(readings[0].knobs)
        data.retune({"prefetch.buffer_size": 3})
        assert readings[0].knobs == before
        iter(data)
        assert follows(readings[1], data)
        # What the thread does that takes its elements counts.
        pool.submit(data.retune, {"prefetch.buffer_size": 5}).result()
        assert readings[0].knobs["prefetch.buffer_size"] == 5
        assert readings[1].knobs["prefetch.buffer_size"] == 3


def test_who_takes_an_element_waits_until_a_change_is_over():
    iterator, taker = iter(Dataset.range(3)), Taker()
    taker.take_note(iterator)
    with ThreadPoolExecutor(1) as pool:
        with taker.kept_waiting() as is_here:
            taken = pool.submit(next, iterator)
            assert is_here
            with pytest.raises(TimeoutError):
                taken.result(timeout=0.05)
        assert int(taken.result()) == 0


def test_an_iterator_that_was_started_early_is_of_the_thread_that_asks_for_it():
    data = dataset()
    with listening() as readings, ThreadPoolExecutor(1) as pool:
        early = data.start_early()
        data.offer(early)
        assert pool.submit(iter, data).result() is early
        assert readings[0].taker.thread != threading.get_ident()


def test_nothing_is_changed_while_another_thread_waits_for_the_element_it_asked_for():
    """The last element was taken here, and yet the other thread's may come after the state was saved."""
    begun, goes_on = threading.Event(), threading.Event()

    def slow(x):
        if x == 1:
            begun.set()
            goes_on.wait(10)
        return x

    numbers = Dataset.range(4).map(lambda x: tf.ensure_shape(tf.numpy_function(slow, [x], tf.int64), []))
    iterator, taker = iter(numbers.with_options(one_by_one())), Taker()
    taker.take_note(iterator)
    assert int(next(iterator)) == 0
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(next, iterator)
        begun.wait(10)
        taker.is_here()
        with taker.kept_waiting() as is_here:
            assert not is_here
        goes_on.set()
        assert int(taken.result()) == 1
    taker.is_here()
    with taker.kept_waiting() as is_here:
        assert is_here


def one_by_one():
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    return options
