"""Measurements come from running the user's own elements, and only where nobody would notice."""

import gc
import math
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from programs import run_program

import autopipe
from autopipe.errors import DatasetError
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import extract
from autopipe.planning.measuring import measure
from autopipe.planning.measuring.caching import CachingCost
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.planning.memory.machine import Machine
from autopipe.rules._base import MeasurementError

Dataset = tf.data.Dataset


def test_fixed_shapes_are_forecast_to_the_byte():
    tree = extract(Dataset.range(1000).map(lambda x: tf.zeros([10, 10], tf.uint8)))
    assert SampleMeasurements().element_bytes(tree) == 100
    beside = 200
    assert SampleMeasurements().cache_bytes(tree) == 1000 * (100 + beside)


def test_batches_of_fixed_shapes_are_forecast_as_full_ones_without_a_sample(monkeypatch):
    monkeypatch.setattr(measure, "take_sample", None)
    tree = extract(Dataset.range(1000).map(lambda x: tf.zeros([10, 10], tf.uint8)).batch(300).batch(2))
    assert SampleMeasurements().element_bytes(tree) == 2 * 300 * 100


@pytest.mark.parametrize(
    ("stages", "epoch"),
    {
        "a number": (lambda mapped: mapped.batch(4), 10),
        "failing elements left out": (lambda mapped: mapped.ignore_errors().batch(4), 10),
        "a filter": (lambda mapped: mapped.filter(lambda x: x < 9), 40),
        "no end": (lambda mapped: mapped.repeat(), math.inf),
    }.values(),
)
def test_what_starts_with_an_epoch_is_shared_by_the_most_elements_that_it_has(monkeypatch, stages, epoch):
    seen = []
    monkeypatch.setattr(measure, "compare_speeds", lambda *_, epoch, **__: seen.append(epoch) or (1.0, 1.0, 1.0))
    sides = [extract(stages(Dataset.range(40).map(lambda x: x + 1, num_parallel_calls=calls))) for calls in (None, 2)]
    SampleMeasurements().whole_speed(*sides)
    assert seen == [epoch]


def test_changing_shapes_are_forecast_from_a_sample_and_not_too_low():
    sizes = np.random.default_rng(0).integers(50, 150, 2000)
    tree = extract(Dataset.from_tensor_slices(sizes).map(lambda n: tf.zeros([n], tf.uint8)))
    beside = 200 * len(sizes)
    assert sizes.sum() * 0.9 < SampleMeasurements().cache_bytes(tree) - beside < sizes.sum() * 1.25


# Equal scalars take more or less, with what was freed around them.
@pytest.mark.deep
@pytest.mark.parametrize(
    ("keeping", "components", "count", "shape", "margin"),
    [("cache", 1, 60_000, [], 0.15), ("cache", 4, 30_000, [47], 0.1), ("memoized", 1, 60_000, [], 0.15)],
)
def test_small_tensors_take_what_is_forecast_of_resident_memory(keeping, components, count, shape, margin):
    code = f"""
import gc
import tensorflow as tf
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.planning.memory.machine import resident_bytes
from autopipe.planning.measuring.measure import SampleMeasurements

def read(dataset):
    # To call a function for each element takes longer than to make it.
    dataset.batch(500).reduce(0, lambda count, *_: count + 1)

def element(x):
    return tuple(tf.fill({shape}, tf.cast(x + i, tf.float32)) for i in range({components}))

def cache(count):
    return extract(tf.data.Dataset.range(count).map(element).cache())

def memoized(count):
    numbers = tf.data.Dataset.range(count)
    mapped = extract(numbers.map(element))
    return ir.MemoizedMap(input=extract(numbers.enumerate()), fn=mapped.fn, source=mapped.input)

forecast = SampleMeasurements().cache_bytes({keeping}({count}).kept)
read(build({keeping}(2000)))
gc.collect()
before = resident_bytes()
kept = build({keeping}({count}))
read(kept)
print((resident_bytes() - before) / forecast)
"""
    # What a table takes beside its numbers, nobody tells.
    assert float(run_program(code)) == pytest.approx(1.0, abs=2 * margin if keeping == "memoized" else margin)


def test_an_endless_pipeline_has_no_size():
    with pytest.raises(MeasurementError, match="number of elements is not known"):
        SampleMeasurements().cache_bytes(extract(Dataset.range(9).repeat()))


def test_a_sample_fills_no_shuffle_buffer_and_no_cache_file(tmp_path):
    made = Dataset.range(10**6).map(lambda x: x + 1).cache(str(tmp_path / "cache")).shuffle(10**6).repeat(3)
    SampleMeasurements().cache_bytes(extract(made))
    assert list(tmp_path.iterdir()) == []


def test_elements_that_raise_are_passed_over_unless_all_do():
    def fails_on_odd(x):
        return tf.debugging.check_numerics(1.0 / tf.cast(1 - x % 2, tf.float32), "odd number")

    def text(x):
        return tf.strings.as_string(fails_on_odd(x))

    assert SampleMeasurements().element_bytes(extract(Dataset.range(10).map(text))) > 0
    with pytest.raises(DatasetError, match="every one tried in .* raised: .*odd number"):
        SampleMeasurements().element_bytes(extract(Dataset.range(1, 10, 2).map(text)))


def sides(before, after):
    old, new = extract(before), extract(after)
    (over,) = [node for node in trees.walk(old) if isinstance(node, ir.Source)]
    (other,) = [node for node in trees.walk(new) if isinstance(node, ir.Source)]
    return old, trees.substitute(new, other, over), over


def test_differences_are_found():
    same = sides(Dataset.range(9).map(lambda x: x + x), Dataset.range(9).map(lambda x: x * 2))
    other = sides(Dataset.range(9).map(lambda x: x + x), Dataset.range(9).map(lambda x: x * 3))
    assert SampleMeasurements().same(*same, exact=True) is None
    assert SampleMeasurements().same(*other, exact=True) == "values differ"


def test_what_holds_for_one_branch_is_not_taken_to_hold_for_another():
    source = Dataset.range(9)
    small, large = extract(source.map(lambda x: x % 2)), extract(source.map(lambda x: x * 9))
    square, itself = (extract(source.map(function)) for function in (tf.square, tf.identity))
    measurements = SampleMeasurements()
    answers = [measurements.same(square.on(over), itself.on(over), over, exact=True) for over in (small, large)]
    assert answers == [None, "values differ"]


def test_two_that_differ_from_their_sources_on_are_timed_as_they_stand_and_once(monkeypatch):
    timed = []
    monkeypatch.setattr(measure, "elements_in_one_turn", lambda side: 1)
    monkeypatch.setattr(measure, "compare_speeds", lambda *sides, **_: timed.append(sides[:2]) or (2.0, 1.5, 2.5))
    numbers, squares = (extract(each.repeat()) for each in (Dataset.range(3), Dataset.range(3).map(tf.square)))
    measurements = SampleMeasurements()
    assert measurements.speed(squares, numbers, None) == measurements.speed(squares, numbers, None) == (2.0, 1.5, 2.5)
    ((before, after),) = timed
    assert [list(side.take(4).as_numpy_iterator()) for side in (before, after)] == [[0, 1, 4, 0], [0, 1, 2, 0]]


def test_what_a_function_takes_is_asked_once_wherever_it_stands():
    measurements = SampleMeasurements()
    mapped = extract(Dataset.range(50).map(tf.square, 2))
    elsewhere = replace(mapped, input=extract(Dataset.range(50).skip(3)))
    assert measurements.working(mapped) == measurements.working(elsewhere)


def megabytes(count, shapes=1):
    return [tf.fill([2**18 + number % shapes], float(number)) for number in range(count)]


@pytest.mark.parametrize(
    ("made", "is_sampled"),
    [
        pytest.param(megabytes(16), False, id="enough were made"),
        pytest.param(megabytes(15), True, id="few were made"),
        pytest.param([tf.zeros([2**10])] * 64, True, id="small ones were made"),
        pytest.param(megabytes(17, shapes=2), False, id="half are of one shape"),
        pytest.param(megabytes(16, shapes=3), True, id="few are of one shape"),
        pytest.param([], True, id="none were seen one by one"),
    ],
)
def test_what_was_made_to_time_a_cache_is_the_sample_of_the_maps_after_it(monkeypatch, made, is_sampled):
    taken = []
    take_sample = measure.take_sample
    monkeypatch.setattr(measure, "caching_cost", lambda *asked: CachingCost(1e-3, 1e-5, made))
    monkeypatch.setattr(measure, "take_sample", lambda node, count: taken.append(node) or take_sample(node, count))
    costly = Dataset.range(50).map(lambda x: tf.fill([2**18], tf.cast(x, tf.float32)))
    negative = extract(costly.map(tf.negative))
    measurements = SampleMeasurements()
    assert measurements.caching(negative.input) == (1e-3, 1e-5)
    over = ir.Cache(input=replace(negative, num_parallel_calls=2))
    assert measurements.same(over, over, over, exact=True) is None
    (sampled,) = taken
    assert (negative.input in set(trees.walk(sampled))) is is_sampled


def test_what_differs_late_in_a_sample_of_small_elements_is_found():
    late = sides(Dataset.range(250).map(lambda x: x), Dataset.range(250).map(lambda x: tf.where(x < 240, x, 0)))
    assert SampleMeasurements().same(*late, exact=True) == "values differ"


def test_of_elements_that_take_long_few_are_compared(monkeypatch):
    def differing_at(place):
        return sides(Dataset.range(12).map(lambda x: x), Dataset.range(12).map(lambda x: tf.where(x != place, x, 0)))

    assert SampleMeasurements().same(*differing_at(8), exact=True) == "values differ"
    monkeypatch.setattr(measure, "_MOST_COMPARED_SECONDS", 0.0)
    assert SampleMeasurements().same(*differing_at(8), exact=True) is None
    assert SampleMeasurements().same(*differing_at(2), exact=True) == "values differ"


def test_rounding_counts_only_where_it_may_not():
    nearly = sides(
        Dataset.range(9).map(lambda x: tf.cast(x, tf.float32) / 3.0),
        Dataset.range(9).map(lambda x: tf.cast(x, tf.float32) / 3.0000004),
    )
    assert SampleMeasurements().same(*nearly, exact=False) is None
    assert SampleMeasurements().same(*nearly, exact=True) == "values differ"


def test_a_pipeline_that_does_ten_times_the_work_is_measured_slower():
    def work(times):
        def busy(x):
            for _ in range(times):
                x = tf.linalg.matmul(x, x)
            return x

        return busy

    data = Dataset.from_tensor_slices(np.full((8, 96, 96), 0.01, "float32")).repeat(100)
    before, after, over = sides(data.map(work(40)).batch(4), data.map(work(2)).batch(4))
    median, low, high = SampleMeasurements().speed(before, after, over)
    assert low <= median <= high
    assert median > 1.5


def test_an_element_that_raises_while_two_sides_run_is_a_reason_not_to_measure():
    def fails_on_three(x):
        return tf.debugging.check_numerics(1.0 / tf.cast(3 - x, tf.float32), "it is three")

    both = sides(Dataset.range(9).map(fails_on_three), Dataset.range(9).map(fails_on_three))
    for question in (lambda: SampleMeasurements().same(*both, exact=True), lambda: SampleMeasurements().speed(*both)):
        with pytest.raises(MeasurementError, match="an element of the sample raised: .*it is three"):
            question()


def test_making_an_element_is_told_from_reading_it_out_of_a_cache():
    def slow(x):
        return tf.while_loop(lambda i, _: i < 10_000, lambda i, total: (i + 1, total + 1.0), (0, 0.0))[1]

    making, reading = SampleMeasurements().caching(extract(Dataset.range(60).map(slow)))
    assert making > 100 * reading


@pytest.mark.parametrize(("after", "asked"), [(tf.math.square, 1), (lambda x: tf.tile(x, [2, 1]), 2)])
def test_a_cache_after_a_map_saves_what_one_before_it_does_unless_it_is_larger(monkeypatch, after, asked):
    costs = [CachingCost(5e-3, 1e-3), CachingCost(9e-3, 1e-3)]
    monkeypatch.setattr(measure, "caching_cost", lambda *_: given.append(costs[len(given)]) or given[-1])
    given = []
    measurements = SampleMeasurements()
    made = extract(Dataset.range(50).map(lambda x: tf.fill([100, 100], x)).map(after))
    assert measurements.caching(made.input) == (5e-3, 1e-3)
    assert measurements.saving(made) == pytest.approx((4e-3, 8e-3)[asked - 1])
    assert len(given) == asked


def test_caching_of_nothing_and_of_what_would_be_seen_is_not_measured():
    with pytest.raises(MeasurementError, match="no elements"):
        SampleMeasurements().caching(extract(Dataset.range(3).filter(lambda x: x > 5)))
    python = Dataset.range(3).map(lambda x: tf.numpy_function(lambda y: y, [x], tf.int64))
    with pytest.raises(MeasurementError, match="runs Python code"):
        SampleMeasurements().caching(extract(python))


def test_what_may_change_something_is_neither_timed_nor_compared():
    calls = []

    def counted(x):
        return tf.ensure_shape(tf.py_function(lambda y: calls.append(1) or y, [x], tf.int64), ())

    mapped = extract(Dataset.range(9).map(counted))
    endless = extract(Dataset.range(9).repeat().map(counted))
    questions = [
        lambda: SampleMeasurements().same(mapped, mapped, over=mapped.input, exact=True),
        lambda: SampleMeasurements().speed(mapped, mapped, over=mapped.input),
        lambda: SampleMeasurements().speed(endless, endless, over=None),
        lambda: SampleMeasurements().working(mapped),
    ]
    for question in questions:
        with pytest.raises(MeasurementError, match="a run could be noticed, since counted runs Python code"):
            question()
    assert not calls


def test_what_reads_a_variable_is_timed_and_compared():
    one = tf.Variable(1, dtype=tf.int64)
    mapped = extract(Dataset.range(9).map(lambda x: x + one))
    assert SampleMeasurements().same(mapped, mapped, over=mapped.input, exact=True) is None
    assert SampleMeasurements().speed(mapped, mapped, over=mapped.input)[0] > 0


@pytest.mark.timeout(60)
def test_a_filter_that_drops_the_whole_sample_is_not_timed_without_end():
    tree = extract(Dataset.range(1000).map(lambda x: x * 2).filter(lambda x: x > 1900))
    with pytest.raises(MeasurementError, match="tried passes filter"):
        SampleMeasurements().speed(tree, tree, over=tree.input.input)


def test_a_function_is_not_timed_again_when_only_what_comes_before_it_changed(monkeypatch):
    asked = []
    monkeypatch.setattr(SampleMeasurements, "_compare", lambda self, *sides: asked.append(sides) or (2.0, 2.0, 2.0))
    mapped = extract(Dataset.range(9).map(lambda x: x + 1))
    measurements = SampleMeasurements()
    for source in (mapped.input, extract(Dataset.range(5)), extract(Dataset.from_tensor_slices([1]))):
        before = mapped.on(source)
        measurements.speed(before, replace(before, num_parallel_calls=2), over=source)
    assert len(asked) == 2


@pytest.mark.parametrize(("lost", "asked_again"), [(0.9, False), (1.1, True)])
def test_what_lost_more_than_all_cores_make_up_for_is_not_timed_again_with_parallel_calls(
    monkeypatch, lost, asked_again
):
    asked = []
    ratio = lost / Machine.here().cores
    monkeypatch.setattr(SampleMeasurements, "_compare", lambda self, *sides: asked.append(sides) or (ratio,) * 3)
    before = extract(Dataset.range(9).map(lambda x: x + 1).batch(3))
    source, mapped = before.input.input, before.input
    after = mapped.on(before.on(source))
    measurements = SampleMeasurements()
    measurements.speed(before, after, over=source)
    parallel = replace(mapped, num_parallel_calls=2)
    found = measurements.speed(before.on(parallel), parallel.on(before.on(source)), over=source)
    assert (len(asked) == 2) is asked_again
    assert found == (ratio,) * 3
    measurements.speed(mapped, parallel, over=source)
    assert asked[-1][:2] == (mapped, parallel)


def test_pipelines_that_take_turns_run_no_further_ahead_than_one_element(monkeypatch):
    timed = []
    monkeypatch.setattr(
        measure, "compare_speeds", lambda *sides, **named: (timed.extend(sides[:2]), (1.0, 1.0, 1.0))[1]
    )
    written = extract(tf.data.Dataset.range(50).prefetch(9).map(lambda x: x * 3).batch(2).prefetch(tf.data.AUTOTUNE))
    measurements = SampleMeasurements()
    assert measurements.whole_speed(written, written.input) == (1.0, 1.0, 1.0)
    assert not timed
    measurements.whole_speed(written, written.input.input)
    measurements.speed(written, written, written.input.input.input)
    assert len(timed) == 4
    for side in timed:
        sizes = {node.buffer_size for node in trees.walk(extract(side)) if isinstance(node, ir.Prefetch)}
        assert sizes == {1}


def test_sides_of_which_one_has_more_elements_differ():
    over = extract(Dataset.range(9))
    more = SampleMeasurements().same(ir.Take(input=over, count=5), ir.Take(input=over, count=4), over, exact=True)
    assert more == "there are more of one than of the other"


def test_what_was_sampled_is_gone_before_the_garbage_collector_comes_by(monkeypatch):
    def images(x):
        return tf.reshape(tf.range(1001, dtype=tf.float32), (7, 11, 13)) + tf.cast(x, tf.float32)

    def held():
        tensors = (each for each in gc.get_objects() if type(each) is type(tf.constant(0)))
        return [each.shape for each in tensors if each.shape[1:] == (7, 11, 13)]

    def noted(*sides, **options):
        ratios = compare_speeds(*sides, **options)
        counts.append(len(held()))
        return ratios

    counts, compare_speeds = [], measure.compare_speeds
    monkeypatch.setattr(measure, "compare_speeds", noted)
    gc.collect()
    gc.disable()
    try:
        autopipe.optimize(Dataset.range(200).map(images).map(tf.exp).shuffle(9).batch(4))
        assert any(counts)
        assert held() == []
    finally:
        gc.enable()


def test_what_turns_out_to_have_no_elements_is_not_measured():
    empty = tf.data.Dataset.range(0).repeat(2).ragged_batch(2)
    with pytest.raises(MeasurementError, match="the pipeline has no elements"):
        SampleMeasurements().whole_speed(extract(empty), extract(empty.map(tf.identity)))
