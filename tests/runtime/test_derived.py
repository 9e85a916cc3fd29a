"""Stages after an optimized dataset that read all of it stay live; all else is TensorFlow's own."""

import gc
import weakref
from itertools import islice

import pytest
import tensorflow as tf
from caching_shuffled_work import caching, slow
from tensorflow.python.data.ops import debug_mode

import autopipe
from autopipe.optimizer import Rewriting
from autopipe.pipeline import ir
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.planning.plans.plan import Plan
from autopipe.runtime.dataset import OptimizedDataset
from autopipe.runtime.derived import FollowingDataset
from autopipe.runtime.readings import observe, stop_observing


class Listener:
    def __init__(self):
        self.readings = []

    def reading_started(self, reading):
        self.readings.append(reading)


@pytest.fixture
def listener():
    made = Listener()
    observe(made)
    yield made
    stop_observing(made)


def tens(count=8, **options):
    return autopipe.optimize(tf.data.Dataset.range(count).map(lambda x: x * 10, num_parallel_calls=2), **options)


def values(dataset):
    return [int(x) for x in dataset]


def test_its_elements_spec_length_and_options_are_those_of_the_whole_pipeline():
    optimized = tens()
    options = tf.data.Options()
    options.deterministic = True
    after = autopipe.optimize(tf.data.Dataset.range(4).with_options(options)).map(lambda x: (x, [x, x])).prefetch(2)
    assert after.element_spec == (tf.TensorSpec([], tf.int64), tf.TensorSpec([2], tf.int64))
    assert int(after.cardinality()) == 4
    assert after.options().deterministic is True
    assert values(optimized.map(lambda x: x + 1)) == [10 * x + 1 for x in range(8)]
    assert isinstance(optimized.prefetch(1).map(lambda x: x), FollowingDataset)


def test_the_optimized_dataset_that_it_follows_is_at_hand():
    optimized = tens()
    assert optimized.batch(2).repeat(2).optimized is optimized


def test_a_swap_after_every_element_loses_and_repeats_none(listener):
    optimized = tens(20)
    after = optimized.map(lambda x: x + 1, num_parallel_calls=3).prefetch(2)
    for _ in range(2):
        seen = []
        for number, x in enumerate(after):
            seen.append(int(x))
            optimized.retune({"prefetch.buffer_size": 1 + number % 5})
            assert listener.readings[-1].knobs == optimized.knobs
        assert seen == [10 * x + 1 for x in range(20)]


def test_what_is_skipped_stays_skipped_when_every_step_swaps():
    optimized = tens(20)
    training = optimized.skip(6).batch(4)
    assert training.optimized is optimized
    for _ in range(2):
        seen = []
        for number, batch in enumerate(training):
            seen += batch.numpy().tolist()
            optimized.retune({"prefetch.buffer_size": 1 + number % 5})
        assert seen == [10 * x for x in range(6, 20)]


def test_observers_see_it_read_to_the_last_stage(listener):
    after = tens(5).map(lambda x: x + 1)
    assert len(values(after)) == 5
    (reading,) = listener.readings
    assert reading.stall.read().batches == 5
    assert one_line(reading.tree) == one_line(extract(after))
    assert one_line(reading.tree).startswith(one_line(reading.dataset.tree))


def test_memory_caches_are_shared_with_the_dataset_it_follows():
    made = tf.Variable(0)

    def count(x):
        made.assign_add(1)
        return x

    optimized = autopipe.optimize(tf.data.Dataset.range(6).map(count).cache(), rules=[])
    assert values(optimized.map(lambda x: x + 1)) == [1, 2, 3, 4, 5, 6]
    assert values(optimized.map(lambda x: x + 2)) == [2, 3, 4, 5, 6, 7]
    assert values(optimized) == [0, 1, 2, 3, 4, 5]
    assert int(made) == 6


def test_an_iterator_that_was_started_early_goes_only_to_who_asks_for_the_same_stages():
    optimized = tens()
    after = optimized.map(lambda x: x + 1)
    other = optimized.map(lambda x: x + 2)
    stages = after._stages
    early = optimized.start_early(stages)
    optimized.offer(early)
    assert iter(other) is not early
    early = optimized.start_early(stages)
    optimized.offer(early)
    assert iter(after) is early
    assert values(early) == [10 * x + 1 for x in range(8)]


@pytest.mark.parametrize("asks", [lambda d: d.map(lambda x: x + 2), lambda d: d], ids=["other stages", "none"])
def test_an_iterator_that_was_started_early_waits_while_others_ask_for_something_else(asks):
    optimized = tens()
    after = optimized.map(lambda x: x + 1)
    early = optimized.start_early(after._stages)
    optimized.offer(early)
    assert len(values(asks(optimized))) == 8
    assert iter(after) is early
    assert iter(after) is not early
    assert values(early) == [10 * x + 1 for x in range(8)]


def test_python_code_after_it_is_not_started_early():
    optimized = tens()
    after = optimized.map(lambda x: tf.py_function(lambda y: y, [x], tf.int64))
    assert optimized.start_early() is not None
    assert optimized.start_early(after._stages) is None


def test_it_can_be_optimized_again():
    after = tens().map(lambda x: x + 1)
    after.note = "tens"
    again = autopipe.optimize(after)
    assert values(again) == values(after)
    assert again.note == "tens"
    # Its knobs are not those of the one that it was made of.
    assert not hasattr(again, "optimized")


STAYS = {
    "batch": lambda d: d.batch(3),
    "parallel batch": lambda d: d.batch(3, drop_remainder=True, num_parallel_calls=2),
    "padded batch": lambda d: d.padded_batch(3),
    "filter": lambda d: d.filter(lambda x: x > 20),
    "repeat": lambda d: d.repeat(2),
    "repeated batches": lambda d: d.batch(3).repeat(2).prefetch(1),
    "options": lambda d: d.with_options(tf.data.Options()),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", STAYS)
def test_what_reads_all_of_it_stays_live_and_swaps_lose_and_repeat_none(name, listener):
    derive = STAYS[name]
    optimized, plain = tens(10), tf.data.Dataset.range(10).map(lambda x: x * 10)
    after = derive(optimized)
    assert isinstance(after, FollowingDataset)
    assert after.element_spec == derive(plain).element_spec
    assert int(after.cardinality()) == int(derive(plain).cardinality())
    for _epoch in range(2):
        seen = []
        for number, x in enumerate(after):
            seen.append(x.numpy().tolist())
            optimized.retune({"prefetch.buffer_size": 1 + number % 5})
            assert listener.readings[-1].knobs == optimized.knobs
        assert seen == [x.numpy().tolist() for x in derive(plain)]
    assert [x.numpy().tolist() for x in after.original] == seen


@pytest.mark.parametrize("name", ["batch", "repeat"])
def test_a_cache_is_filled_once_for_it_and_for_others(name):
    made = tf.Variable(0)

    def count(x):
        made.assign_add(1)
        return x

    optimized = autopipe.optimize(tf.data.Dataset.range(6).map(count).cache(), rules=[])
    for _epoch in range(2):
        list(STAYS[name](optimized))
        list(optimized)
    assert int(made) == 6


def jpegs(count):
    one = tf.io.encode_jpeg(tf.zeros([8, 8, 3], tf.uint8)).numpy()
    return tf.data.Dataset.from_tensor_slices([one] * count)


@pytest.mark.usefixtures("as_fast")
@pytest.mark.parametrize(
    ("source", "follows"), [(jpegs(6), True), (jpegs(9).take(6), False)], ids=["counted", "not counted"]
)
def test_an_endless_repeat_follows_where_it_is_known_by_number_that_no_element_failed(source, follows, monkeypatch):
    """Its iterators never come to an end, which is what tells it elsewhere."""
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
    optimized = autopipe.optimize(source.map(tf.io.decode_jpeg), rules=["cache_fixed_work"])
    assert optimized.plan.rules == ("cache_fixed_work",)
    assert isinstance(optimized.batch(2), FollowingDataset)
    endless = optimized.batch(2).repeat()
    assert isinstance(endless, FollowingDataset) is follows
    for _fit in range(2):
        assert len(list(islice(endless, 7))) == 7
    assert optimized.caches_are_full is follows


def test_a_shuffle_that_would_not_wait_for_a_cache_waits_where_it_is_repeated(monkeypatch):
    """One iterator would mix all its epochs as little as the first."""
    tree = ir.Shuffle(input=extract(tf.data.Dataset.range(100).cache()), buffer_size=100, while_filling=1)
    optimized = OptimizedDataset(tf.data.Dataset.range(100), Rewriting(tree, tree, (), ()), Plan("none"))
    assert values(optimized) == list(range(100))
    other = OptimizedDataset(tf.data.Dataset.range(100), Rewriting(tree, tree, (), ()), Plan("none"))
    mixed = values(other.repeat(2))
    assert mixed[:100] != list(range(100))
    assert sorted(mixed[:100]) == sorted(mixed[100:]) == list(range(100))


@pytest.mark.parametrize(
    "derive", [lambda d: d.take(3), lambda d: d.enumerate(), lambda d: d.shuffle(2), lambda d: d.cache()]
)
def test_other_stages_after_it_are_those_of_any_dataset(derive):
    assert not isinstance(derive(tens()), FollowingDataset)
    assert sum(1 for _ in derive(tens().map(lambda x: x + 1))) == sum(1 for _ in derive(tf.data.Dataset.range(8)))


@pytest.fixture
def _debug_mode():
    """TensorFlow's, in which a prefetch is none."""
    tf.data.experimental.enable_debug_mode()
    yield
    debug_mode.toggle_debug_mode(False)


@pytest.mark.usefixtures("_debug_mode")
@pytest.mark.parametrize(
    "derive",
    [lambda d: d.map(lambda x: x + 1).prefetch(2), lambda d: d.batch(2).prefetch(2), lambda d: d.prefetch(2).repeat(2)],
    ids=["map", "batch", "repeat"],
)
def test_in_debug_mode_each_stage_after_it_is_there_once(derive):
    plain = tf.data.Dataset.range(8).map(lambda x: x * 10)
    ours, theirs = ([x.numpy().tolist() for x in derive(each)] for each in (tens(seconds=0), plain))
    assert ours == theirs


def test_inside_a_traced_function_it_is_read_as_any_dataset():
    after = tens().map(lambda x: x + 1)

    @tf.function
    def total():
        return after.map(lambda x: x * 2).reduce(tf.constant(0, tf.int64), lambda a, b: a + b)

    assert int(total()) == 2 * sum(values(after))


def test_pipelines_of_stages_that_nobody_holds_are_let_go():
    optimized = tens()
    gone = []
    for number in range(3):
        after = optimized.map(lambda x, number=number: x + number)
        values(after)
        gone.append(weakref.ref(after._stages[0].fn.concrete))
    values(optimized.map(lambda x: x))
    del after
    gc.collect()
    assert [ref() is None for ref in gone[:2]] == [True, True]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keeps", ["training", "sequence"])
def test_a_look_at_the_first_batch_draws_no_order_that_nobody_reads(keeps):
    """With a prefetch at its end, what is derived would read on into the next repetition, or not, as it comes."""

    def seeded():
        return tf.data.Dataset.range(22).shuffle(22, seed=8).prefetch(1).repeat(2).batch(3)

    for _ in range(5):
        written, optimized = seeded(), autopipe.optimize(seeded(), keeps=keeps, seconds=0)
        assert "prefetch_at_end" in optimized.plan.rules
        for dataset in (written, optimized):
            assert len(list(dataset.take(1))) == 1
        ours, theirs = ([batch.numpy().tolist() for batch in dataset] for dataset in (optimized, written))
        assert ours == theirs


@pytest.mark.parametrize(
    "derive",
    [
        lambda following: following.enumerate().map(lambda _, x: x),
        lambda following: tf.data.Dataset.zip((following,)).map(lambda x: x),
        lambda following: following.take(10),
    ],
    ids=["enumerated", "zipped", "taken"],
)
def test_what_is_derived_later_reads_the_caches_that_are_full_by_then(derive):
    calls = []
    dataset = caching(slow(calls))
    following = dataset.map(lambda x: x + 1)
    elements = [*dataset]
    calls.clear()
    assert sum(len(x) for x in derive(following)) == sum(len(x) for x in derive(following)) == sum(map(len, elements))
    assert not calls


def test_a_folder_for_caches_that_keeps_nothing_changes_nothing(tmp_path):
    dataset = autopipe.optimize(tf.data.Dataset.range(8).map(lambda x: x + 1), disk_cache=tmp_path, seconds=0)
    assert isinstance(dataset.repeat(), FollowingDataset)
