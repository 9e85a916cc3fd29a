"""Iterators that are left midway, one after the other, fill no cache for nothing; one that is read to its end does."""

import gc
import threading
import weakref
from concurrent.futures import Future
from functools import partial

import keras
import pytest
import tensorflow as tf
from caching_shuffled_work import COUNT, caching, counted, slow, work
from disposing import wait_for_disposal
from retuning import follows, listening, numbers, setting

import autopipe
from autopipe.planning.plans.plan import Plan
from autopipe.rules import Keeps
from autopipe.runtime.caches.left_midway import Departures, answer, read_to_end
from autopipe.runtime.dataset import OptimizedDataset
from autopipe.runtime.disposal import resource_of
from autopipe.runtime.readings import Form
from autopipe.runtime.requests import Requests
from sides import AlwaysFaster, apply

Dataset = tf.data.Dataset
ALL = list(range(COUNT))
MIXED = {
    "a part": lambda names: names.shuffle(COUNT // 2),
    "all": lambda names: names.shuffle(COUNT),
    "nothing": lambda names: names,
    "a part of an unknown number": lambda names: names.filter(lambda x: x >= 0).shuffle(COUNT // 2),
}


def reading_nothing_ahead(dataset):
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    return dataset.with_options(options)


def mixing(calls, mixed="a part"):
    return caching(reading_nothing_ahead(slow(calls, MIXED[mixed])))


def leave(dataset, times=4):
    for _ in range(times):
        next(iter(dataset))
    wait_for_disposal()


def passes(iterator):
    return iterator._autopipe_reading.passes


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mixed", MIXED)
def test_after_four_that_were_left_the_next_works_out_what_it_is_asked_for_and_keeps_nothing(mixed):
    calls = []
    dataset = mixing(calls, mixed)
    leave(dataset)
    calls.clear()
    iterator = iter(dataset)
    first = next(iterator)
    assert passes(iterator)
    assert len(calls) == 4
    assert numbers([first, *iterator]) == ALL
    assert sorted(calls) == ALL
    assert not dataset.caches_are_full


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mixed", MIXED)
def test_once_one_of_them_was_read_to_its_end_the_next_fills_caches_again(mixed):
    calls = []
    dataset = mixing(calls, mixed)
    leave(dataset, times=6)
    assert numbers(dataset) == ALL
    wait_for_disposal()
    iterator = iter(dataset)
    assert not passes(iterator)
    assert numbers(iterator) == ALL
    del iterator
    wait_for_disposal()
    calls.clear()
    assert numbers(dataset) == numbers(dataset) == ALL
    assert not calls
    assert dataset.caches_are_full


def test_neither_three_that_were_left_nor_four_that_somebody_holds_are_enough():
    dataset = mixing([])
    leave(dataset, times=3)
    held = [iter(dataset) for _ in range(4)]
    for iterator in held:
        next(iterator)
    assert not any(map(passes, held))


def test_who_takes_as_many_as_there_are_and_no_more_has_read_to_the_end():
    dataset = mixing([])
    leave(dataset)
    iterator = iter(dataset)
    assert passes(iterator)
    for _ in range(COUNT // 4):
        next(iterator)
    del iterator
    assert not passes(iter(dataset))


def test_evaluations_of_a_step_each_keep_nothing_and_whole_ones_do():
    dataset = mixing([])
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    labelled = dataset.map(lambda x: (tf.cast(x, tf.float32)[:, None],) * 2)
    first = []
    with listening() as readings:
        for steps in (1, 1, 1, 1, 1, None, None):
            # At the end Keras may make another one, and reads nothing of it.
            first.append(len(readings))
            model.evaluate(labelled, steps=steps, verbose=0)
    assert [readings[number].passes for number in first] == [False] * 4 + [True, True, False]
    assert dataset.caches_are_full


@pytest.mark.parametrize(
    "dataset",
    [
        lambda: mixing([]).repeat(2),
        lambda: caching(slow([], MIXED["a part"]).repeat(2)),
        lambda: autopipe.optimize(slow([]).cache().batch(2), seconds=0),
    ],
    ids=["a repeat after it", "a repeat within it", "its author's cache"],
)
def test_what_reads_its_cache_again_and_what_its_author_caches_are_filled_each_time(dataset):
    made = dataset()
    leave(made, times=6)
    assert not passes(iter(made))


def in_order():
    return caching(Dataset.range(COUNT).map(work).batch(4).prefetch(2))


def test_a_swap_after_every_element_of_one_that_keeps_nothing_loses_and_repeats_none():
    dataset = in_order()
    leave(dataset)
    iterator = iter(dataset)
    seen = []
    for step, batch in enumerate(iterator):
        seen.append(batch)
        dataset.retune(setting(dataset, step))
        assert follows(iterator._autopipe_reading, dataset)
        assert passes(iterator)
    assert numbers(seen) == ALL


def batches(elements):
    return [batch.numpy().tolist() for batch in elements]


FORMS = {"that keeps nothing": lambda dataset: leave(dataset), "that fills": lambda dataset: None}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("restored", FORMS)
@pytest.mark.parametrize("saved", FORMS)
def test_one_goes_on_from_the_checkpoint_of_another(saved, restored, tmp_path):
    saving, restoring = in_order(), in_order()
    FORMS[saved](saving)
    FORMS[restored](restoring)
    iterator, other = iter(saving), iter(restoring)
    assert (passes(iterator), passes(other)) == (saved == "that keeps nothing", restored == "that keeps nothing")
    first = [next(iterator) for _ in range(3)]
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "saved"))
    tf.train.Checkpoint(iterator=other).read(path).assert_consumed()
    assert passes(other) is passes(iterator)
    assert batches([*first, *other]) == batches([*first, *iterator])
    assert numbers([*first]) == ALL[:12]
    for dataset in (saving, restoring):
        assert [numbers(dataset) for _epoch in range(4)] == [ALL] * 4
        assert dataset.caches_are_full


def test_iterators_over_the_same_dataset_that_keep_nothing_go_on_from_each_other(tmp_path):
    dataset = in_order()
    leave(dataset)
    iterator = iter(dataset)
    first = [next(iterator) for _ in range(3)]
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "saved"))
    rest = batches(iterator)
    leave(dataset)
    other = iter(dataset)
    assert passes(other)
    tf.train.Checkpoint(iterator=other).read(path).assert_consumed()
    assert batches(other) == rest
    assert numbers([*first]) == ALL[:12]


def test_four_in_a_row_are_usual_and_one_that_was_read_to_its_end_begins_another_row():
    departures, held = Departures(), [iter(Dataset.range(3)) for _ in range(8)]
    for number in range(8):
        departures.watch(held[number], ended=lambda number=number: number == 3)
    usual = []
    while held:
        held.pop(0)
        usual.append(departures.are_usual)
    assert usual == [False] * 7 + [True]


@pytest.mark.parametrize(
    ("given", "in_vain", "number", "ended"),
    [(2, 0, 3, False), (3, 0, 3, True), (2, 1, 3, True), (9, 0, -2, False), (9, 0, -1, False), (9, 1, -2, True)],
)
def test_the_end_was_reached_by_who_asked_in_vain_or_got_as_many_as_there_are(given, in_vain, number, ended):
    assert read_to_end(Requests(given, in_vain), number) is ended


def test_who_takes_all_of_an_unknown_number_and_no_more_is_asked_for_its_end():
    dataset = mixing([], "a part of an unknown number")
    leave(dataset)
    iterator = iter(dataset)
    assert passes(iterator)
    for _ in range(COUNT // 4):
        next(iterator)
    del iterator
    wait_for_disposal()
    assert not passes(iter(dataset))


def test_what_keeps_nothing_serves_nobody_after_it_was_given_the_state_of_another(tmp_path):
    def of_an_unknown_number():
        names = MIXED["a part of an unknown number"](Dataset.range(COUNT))
        return caching(reading_nothing_ahead(names.map(work).batch(4)))

    saving = of_an_unknown_number()
    leave(saving)
    iterator = iter(saving)
    next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "saved"))
    dataset = of_an_unknown_number()
    other = iter(dataset)
    tf.train.Checkpoint(iterator=other).read(path).assert_consumed()
    next(other)
    del other
    wait_for_disposal()
    assert not dataset.caches_are_full
    dataset.retune(setting(dataset, 1))
    assert [numbers(dataset) for _epoch in range(2)] == [ALL] * 2


def test_one_that_keeps_nothing_and_was_read_to_its_end_after_a_restore_has_ended(tmp_path):
    dataset = in_order()
    leave(dataset)
    iterator = iter(dataset)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "saved"))
    other = iter(dataset)
    tf.train.Checkpoint(iterator=other).read(path).assert_consumed()
    assert passes(other)
    assert numbers(other) == ALL
    del other, iterator
    wait_for_disposal()
    assert not passes(iter(dataset))


def test_who_leaves_an_unknown_number_again_and_again_is_asked_for_the_end_once_for_so_many():
    departures = Departures()
    assert not departures.may_be_all(0)
    departures.note(3, ended=False)
    departures.note(5, ended=True)
    assert [departures.may_be_all(given) for given in (2, 3, 4, 5)] == [False, False, True, True]


def test_an_iterator_of_which_the_end_is_not_known_yet_is_not_counted_yet():
    departures, found = Departures(), Future()
    for _ in range(4):
        departures.watch(iter(Dataset.range(3)))
    departures.watch(iter(Dataset.range(3)), partial(answer, found))
    assert departures.are_usual
    found.set_result(True)
    assert not departures.are_usual


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mixed", MIXED)
def test_those_that_are_left_keep_nothing_however_often(mixed):
    dataset = mixing([], mixed)
    leave(dataset)
    for _ in range(5):
        iterator = iter(dataset)
        next(iterator)
        assert passes(iterator)
        del iterator
        wait_for_disposal()


def with_a_cache(calls, mixed=COUNT):
    """A pipeline whose author caches what may fail, of an unknown number, and mixes so many of them."""

    def parsed(x):
        return tf.strings.to_number(tf.strings.as_string(work(x)), tf.int64)

    names = Dataset.range(COUNT).filter(lambda x: x >= 0)
    return slow(calls, lambda _: names).unbatch().map(parsed).cache().map(lambda x: x + 0).shuffle(mixed).batch(4)


def moved(written):
    return OptimizedDataset(written, apply("cache_after_map", written, Keeps.TRAINING, AlwaysFaster()), Plan("none"))


def test_a_cache_of_the_author_that_the_first_element_fills_is_filled_once_though_all_are_left_midway():
    calls = []
    dataset = moved(with_a_cache(calls))
    assert dataset.tree != dataset.written
    leave(dataset)
    calls.clear()
    iterator = iter(dataset)
    assert passes(iterator)
    assert numbers(iterator) == ALL
    assert sorted(calls) == ALL
    leave(dataset)
    calls.clear()
    leave(dataset)
    assert not calls


def test_what_the_first_element_does_not_fill_is_passed_by():
    dataset = moved(with_a_cache([], mixed=4))
    leave(dataset)
    iterator = iter(dataset)
    assert passes(iterator)
    assert iterator._autopipe_reading.form is not Form.AS_WRITTEN


def test_the_cache_of_the_author_is_let_go_once_the_one_in_its_place_is_full():
    dataset = moved(with_a_cache([]))
    leave(dataset)
    iterator = iter(dataset)
    assert iterator._autopipe_reading.form is Form.AS_WRITTEN
    held = weakref.ref(iterator._autopipe_reading.memories)
    assert numbers(iterator) == ALL
    del iterator
    wait_for_disposal()
    assert [numbers(dataset) for _ in range(2)] == [ALL] * 2
    assert dataset.caches_are_full
    gc.collect()
    assert held() is None


def test_a_small_pass_fills_a_cache_of_the_author_that_the_first_element_fills():
    calls = []
    dataset = moved(with_a_cache(calls))
    for _ in range(3):
        next(iter(dataset.take(1)))
    assert sorted(calls) == ALL


def test_training_after_looks_at_a_batch_finds_the_cache_of_the_author_full():
    calls = []
    dataset = moved(Dataset.range(COUNT).map(counted(calls)).cache().map(work).shuffle(COUNT).batch(4))
    for _ in range(2):
        next(iter(dataset.take(1)))
    assert [numbers(dataset) for _ in range(2)] == [ALL] * 2
    assert sorted(calls) == ALL


def test_starting_one_that_keeps_nothing_makes_no_function_that_counts():
    dataset = in_order()
    leave(dataset)
    iterator = iter(dataset)
    assert passes(iterator)
    assert not iterator._autopipe_reading.notes


@pytest.mark.parametrize("take", [3, COUNT // 4], ids=["some", "all"])
def test_what_a_traced_consumer_took_tells_whether_it_came_to_the_end(take):
    dataset = in_order()
    leave(dataset)

    def consume(iterator):
        for _ in range(take):
            following(iterator)

    following = tf.function(lambda iterator: next(iterator))
    consume(iter(dataset))
    wait_for_disposal()
    assert passes(iter(dataset)) == (take == 3)


def test_one_whose_handle_a_traced_loop_still_holds_has_ended_if_it_gave_all_there_are():
    dataset = in_order()
    leave(dataset)
    iterator = iter(dataset)
    handle = resource_of(iterator)
    assert passes(iterator)
    assert len(list(iterator)) == COUNT // 4
    del iterator
    wait_for_disposal()
    assert not passes(iter(dataset))
    del handle


def test_the_end_that_is_just_being_found_out_is_waited_for_a_moment():
    departures, found = Departures(), Future()
    for _ in range(4):
        departures.watch(iter(Dataset.range(3)))
    departures.watch(iter(Dataset.range(3)), partial(answer, found), asked=found)
    threading.Timer(0.005, found.set_result, [True]).start()
    assert not departures.are_usual
