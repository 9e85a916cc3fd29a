"""A profile tells what each stage costs, whatever the pipeline, and costs little itself."""

import json
import math
import time
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given
from pipelines import recipes
from rich.console import Console

import autopipe
from autopipe.errors import ArgumentError, DatasetError
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import extract
from autopipe.pipeline.tensorflow_rewrites import has_autotune
from autopipe.planning.costs import profiling
from autopipe.planning.costs.profile import Stretch
from autopipe.planning.costs.profiling import Looks, profile, profile_tree
from autopipe.planning.costs.stages import model_of
from autopipe.planning.measuring.failures import Failures, skipping_failures

Dataset = tf.data.Dataset
NUMBERS = Dataset.range(1_000_000)
SECONDS = 0.2
MANY_EPOCHS = 100


def plus_one(x):
    return x + 1


def inverse_of(number):
    def inverse(x):
        return tf.debugging.check_numerics(1 / tf.cast(number(x), tf.float32), "no number")

    return inverse


def gives_nothing(dataset):
    return next(skipping_failures(iter(dataset), Failures()), None) is None


def stages(cost):
    return [each.stage for each in cost.stages]


@given(recipe=recipes())
def test_any_pipeline_with_elements_has_a_profile(recipe):
    try:
        dataset = recipe()
        next(iter(dataset), None)
    except (ValueError, TypeError, tf.errors.OpError):
        assume(False)
    tree = extract(dataset)
    try:
        cost = profile_tree(tree, 0.01)
    except DatasetError:
        # A shuffle decides in each epoch whether any element passes what comes after it.
        assert any(gives_nothing(dataset) for _ in range(MANY_EPOCHS))
        return
    assert {each.node for each in cost.stages} <= set(trees.walk(tree))
    assert cost.stretch.elements > 0
    assert cost.stretch.rate > 0
    assert math.isclose(sum(each.share for each in cost.stages), 1, abs_tol=1e-6) or not cost.stages
    assert json.loads(json.dumps(cost.to_dict()))["epochs"] == cost.epochs
    assert ("elements/s" if cost.batch is None else f"batches/s of {cost.batch:,}") in str(cost)


class TestWhatIsRead:
    def test_pipelines_without_end_are_left_when_the_time_is_up(self):
        cost = profile(NUMBERS.repeat().map(plus_one).batch(4), SECONDS)
        assert cost.epochs == 0
        assert not cost.filling
        assert stages(cost) == ["range(0, 1000000)", "repeat()", "map(plus_one)"]

    def test_short_ones_are_read_again_and_again(self):
        cost = profile(Dataset.range(3).map(plus_one), 4 * SECONDS)
        assert cost.epochs > 1
        assert cost.stretch.elements >= 3 * cost.epochs - 1
        assert stages(cost) == ["range(0, 3)", "map(plus_one)"]

    def test_one_element_is_enough(self):
        cost = profile(Dataset.from_tensors(1.0).map(plus_one), SECONDS)
        assert cost.stretch.rate > 0

    @pytest.mark.parametrize("dataset", [Dataset.range(0), NUMBERS.take(99).filter(lambda x: x < 0)])
    def test_without_elements_there_is_nothing_to_measure(self, dataset):
        with pytest.raises(DatasetError, match="must have elements"):
            profile(dataset, SECONDS)

    def test_elements_without_end_none_of_which_pass_are_refused_in_time_with_what_stops_them(self, monkeypatch):
        monkeypatch.setattr(profiling, "_MOST_SECONDS_TO_FIRST_ELEMENT", 0.3)
        numbers = tf.data.Dataset.range(9).repeat()
        with pytest.raises(DatasetError, match=r"have elements .* but .* none of the elements tried passes filter\("):
            profile(numbers.filter(lambda x: x > 9).batch(2), seconds=0.2)
        assert profile(numbers.filter(lambda x: x > 7).batch(2), seconds=0.2).stages

    def test_a_part_to_choose_from_that_passes_nothing_and_is_never_chosen_is_no_fault(self, monkeypatch):
        monkeypatch.setattr(profiling, "_MOST_SECONDS_TO_FIRST_ELEMENT", 0.3)
        numbers = tf.data.Dataset.range(9).repeat()
        first = tf.data.Dataset.from_tensors(tf.constant(0, tf.int64)).repeat()
        chosen = tf.data.Dataset.choose_from_datasets([numbers, numbers.filter(lambda x: x > 9)], first)
        assert profile(chosen, seconds=0.2).stretch.elements > 0

    def test_a_first_element_that_takes_longer_than_the_look_is_awaited(self, monkeypatch):
        monkeypatch.setattr(profiling, "_MOST_SECONDS_TO_FIRST_ELEMENT", 0.1)

        def slowly(x):
            return tf.ensure_shape(tf.numpy_function(lambda value: time.sleep(0.1) or value, [x], tf.int64), ())

        slow = tf.data.Dataset.range(9).repeat().map(slowly).interleave(Dataset.from_tensors)
        assert profile(slow.batch(4, drop_remainder=True), seconds=0.2).stretch.elements > 0

    def test_what_gives_its_elements_only_once_is_not_looked_at_before(self):
        once = iter(range(5))
        numbers = tf.data.Dataset.from_generator(lambda: once, output_signature=tf.TensorSpec((), tf.int64))
        cost = profile(numbers.repeat().shuffle(10).filter(lambda x: x >= 0), seconds=0.2)
        assert stages(cost)[-1].startswith("filter")

    def test_elements_that_fail_now_and_then_are_passed_over_and_told_of(self):
        cost = profile(Dataset.range(50).map(inverse_of(lambda x: x % 5)), SECONDS)
        assert cost.epochs > 0
        assert stages(cost)[-1] == "map(inverse)"
        assert cost.failed >= 10 * cost.epochs
        assert f"{cost.failed:,} elements raised and were skipped, the first: no number" in str(cost)
        assert cost.to_dict()["failure"].startswith("no number")

    def test_elements_that_can_all_be_made_are_not_told_of(self):
        cost = profile(Dataset.range(50).map(plus_one), SECONDS)
        assert cost.failed == 0
        assert "raised" not in str(cost)

    @pytest.mark.parametrize("dataset", [Dataset.range(9), NUMBERS])
    def test_a_pipeline_that_always_fails_is_refused_with_what_it_raises(self, dataset):
        with pytest.raises(DatasetError, match=r"but all (9|100) that were tried raised: no number"):
            profile(dataset.map(inverse_of(lambda x: x * 0)), SECONDS)

    def test_elements_without_end_that_always_fail_are_refused_with_what_they_raise(self):
        failing = Dataset.range(9).repeat().map(inverse_of(lambda x: x * 0)).filter(lambda x: x > 0)
        with pytest.raises(DatasetError, match="but all 100 that were tried raised: no number"):
            profile(failing, SECONDS)

    @pytest.mark.parametrize("reader", [tf.data.TextLineDataset, tf.data.TFRecordDataset])
    def test_a_reader_that_cannot_read_is_named_and_the_remedy_is_a_file(self, reader, tmp_path):
        with pytest.raises(DatasetError, match=r"but \w+_files\(.* raised: .* Check that the file exists") as caught:
            profile(reader(str(tmp_path / "nowhere")).batch(2), SECONDS)
        assert "ignore_errors" not in str(caught.value)

    def test_a_pipeline_that_fails_from_some_place_on_is_measured_up_to_it(self):
        cost = profile(NUMBERS.map(inverse_of(lambda x: tf.cast(x < 20, tf.int64))), SECONDS)
        assert cost.stretch.elements > 0
        assert cost.failed >= 100

    @pytest.mark.usefixtures("as_fast")
    def test_an_optimized_dataset_is_measured_as_it_runs(self):
        dataset = autopipe.optimize(Dataset.range(500).cache().map(plus_one).batch(2), keeps="sequence")
        cost = profile(dataset, SECONDS)
        assert {each.node for each in cost.stages} <= set(trees.walk(extract(dataset)))
        assert any(each.stage.startswith("prefetch") for each in cost.stages)

    def test_options_that_turn_autotuning_off_are_no_obstacle(self):
        options = tf.data.Options()
        options.autotune.enabled = False
        dataset = NUMBERS.map(plus_one).with_options(options).batch(2)
        assert stages(profile(dataset, SECONDS)) == ["range(0, 1000000)", "map(plus_one)", "batch(2)"]
        assert dataset.options().autotune.enabled is False


class TestShuffles:
    """A buffer of all elements has every stage before it gone when it gives its first."""

    @staticmethod
    def slow(x):
        return tf.ensure_shape(tf.numpy_function(lambda value: time.sleep(2e-3) or value, [x], tf.int64), [])

    def test_a_buffer_that_takes_longer_to_fill_than_there_is_time_is_not_filled(self):
        began = time.perf_counter()
        cost = profile(Dataset.range(10_000).map(self.slow).shuffle(10_000).batch(4), 2 * SECONDS)
        assert time.perf_counter() - began < 10
        assert cost.stretch.elements > 3
        by_stage = {each.stage: each for each in cost.stages}
        assert by_stage["map(slow)"].share > 0.5
        assert by_stage["shuffle(10000)"].buffered_bytes == 10_000 * 8

    @pytest.mark.timed
    @pytest.mark.parametrize(
        ("dataset", "held"),
        [
            (Dataset.range(50).shuffle(1_000), 50 * 8),
            (NUMBERS.shuffle(1_000), 1_000 * 8),
            (Dataset.range(50).filter(lambda x: x >= 0).shuffle(tf.data.UNKNOWN_CARDINALITY), 50 * 8),
        ],
    )
    def test_it_is_said_to_hold_what_it_does_once_it_is_full(self, dataset, held):
        (shuffle,) = [each for each in profile(dataset, SECONDS).stages if isinstance(each.node, ir.Shuffle)]
        assert held / 2 <= shuffle.buffered_bytes <= held

    def test_what_comes_before_a_full_buffer_is_seen_while_it_fills(self):
        dataset = Dataset.range(100).map(self.slow).shuffle(100)
        options = tf.data.Options()
        options.autotune.enabled = True
        iterator = iter(dataset.with_options(options))
        looks = Looks(extract(dataset), lambda: iterator)
        for _ in iterator:
            looks.count()
        cost = profiling.profile_of(extract(dataset), [looks.epoch()])
        assert {each.stage: each for each in cost.stages}["map(slow)"].share > 0.5

    def test_nobody_looks_any_more_at_an_iterator_that_is_gone(self):
        iterator = iter(NUMBERS)
        looks = Looks(extract(NUMBERS), weakref.ref(iterator))
        del iterator
        looks._watch.join(10)
        assert not looks._watch.is_alive()

    def test_what_the_garbage_collector_calls_during_a_look_may_wait_for_looks_too(self, monkeypatch):
        def look(iterator):
            profiling.wait_for_looks()
            return model_of(iterator)

        monkeypatch.setattr(profiling, "model_of", look)
        iterator = iter(NUMBERS)
        looks = Looks(extract(NUMBERS), lambda: iterator)
        next(iterator)
        looks.count()
        assert looks.elements == 1


class TestCaches:
    def test_the_first_epoch_of_a_cache_is_said_to_fill_it(self):
        cost = profile(NUMBERS.map(plus_one).cache(), SECONDS)
        assert cost.filling
        assert "in which its cache fills" in str(cost)

    def test_later_epochs_are_what_counts(self):
        cost = profile(Dataset.range(100).map(plus_one).cache().batch(5), SECONDS)
        assert not cost.filling
        assert stages(cost) == ["cache()", "batch(5)"]

    def test_later_epochs_have_half_of_the_time_even_where_filling_took_most_of_it(self):
        def wait(x):
            return tf.numpy_function(lambda value: time.sleep(0.075) or value, [x], tf.int64)

        tree = extract(Dataset.range(10).map(wait).cache())
        began = time.perf_counter()
        assert not profile_tree(tree, 1.0).filling
        assert time.perf_counter() - began >= 0.75 + 0.5

    def test_a_cache_in_a_file_is_not_filled_on_the_users_behalf(self, tmp_path):
        file = tmp_path / "cache"
        dataset = Dataset.range(100).cache(str(file)).batch(5)
        assert profile(dataset, SECONDS).epochs > 1
        assert not list(tmp_path.iterdir())

        for _ in dataset:
            pass
        written = {each.name: each.stat().st_mtime_ns for each in tmp_path.iterdir()}
        assert stages(profile(dataset, SECONDS))[0].startswith("cache(")
        assert {each.name: each.stat().st_mtime_ns for each in tmp_path.iterdir()} == written


class TestFigures:
    def test_shares_and_bytes_are_those_of_the_stages(self):
        def work(x):
            square = tf.fill((300, 300), tf.cast(x, tf.float32))
            return tf.reduce_sum(square @ square)

        cost = profile(NUMBERS.map(work, num_parallel_calls=2).batch(16), 0.4)
        by_stage = {each.stage: each for each in cost.stages}
        assert by_stage["map(work, calls=2)"].share > 0.5
        assert by_stage["map(work, calls=2)"].fused_with == "batch(16)"
        assert by_stage["map(work, calls=2)"].bytes_per_element == 16 * 4
        assert by_stage["range(0, 1000000)"].bytes_per_element == 8

    def test_a_stage_that_ended_before_the_others_is_told_too(self):
        cost = profile(Dataset.range(64).map(plus_one).concatenate(NUMBERS), SECONDS)
        assert "map(plus_one)" in stages(cost)

    def test_the_error_of_the_bytes_is_none_for_fixed_shapes_and_some_for_others(self):
        fixed = profile(NUMBERS.map(lambda x: tf.zeros(7)), SECONDS).stages[-1]
        varied = profile(NUMBERS.map(lambda x: tf.zeros(x % 100)), SECONDS).stages[-1]
        assert (fixed.bytes_per_element, fixed.bytes_error) == (28, 0)
        assert 0 < varied.bytes_error < varied.bytes_per_element

    @pytest.mark.parametrize(
        ("dataset", "unit"),
        [
            (NUMBERS.batch(4).map(plus_one).prefetch(1), "batches/s of 4 with"),
            (NUMBERS.padded_batch(1024, []).repeat(2), "batches/s of 1,024 with"),
            (NUMBERS.batch(4).unbatch(), "elements/s with"),
            (Dataset.zip(NUMBERS.batch(4), NUMBERS.batch(2)), "elements/s with"),
        ],
    )
    def test_the_rate_says_what_an_element_is(self, dataset, unit):
        assert unit in str(profile(dataset, SECONDS))

    def test_a_stage_is_found_by_its_node(self):
        tree = extract(NUMBERS.batch(2).prefetch(0))
        cost = profile_tree(tree, SECONDS)
        assert cost.of(tree.input).stage == "batch(2)"
        assert cost.of(ir.Take(input=tree, count=1)) is None

    def test_the_table_fits_any_terminal(self):
        cost = profile(NUMBERS.map(plus_one, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(2), SECONDS)
        lines = str(cost).splitlines()
        assert sum("map(plus_one, calls=AUTOTUNE) + batch(32)" in line for line in lines) == 1
        assert max(map(len, lines)) <= 140

    @pytest.mark.parametrize(
        ("width", "without"), [(40, ["Calls", "Gives", "Holds"]), (60, ["Gives", "Holds"]), (80, [])]
    )
    def test_in_a_narrow_terminal_the_stages_and_their_work_stay(self, width, without):
        cost = profile(NUMBERS.map(plus_one).batch(32).prefetch(2), SECONDS)
        console = Console(width=width)
        with console.capture() as shown:
            console.print(cost)
        text = shown.get()
        assert all(part in text for part in ("plus_one", "prefetch", "%", "Time"))
        assert [heading for heading in ("Calls", "Gives", "Holds") if heading not in text] == without


class TestLooks:
    # At 1 ms, 3 ms, 7 ms and so on: more than it takes a second for.
    BEFORE_THE_FIRST = 10

    def test_the_start_of_an_epoch_counts_if_it_is_read_to_its_end(self):
        tree = extract(NUMBERS.take(20))
        for stopped, elements in ((False, 20), (True, 19)):
            iterator = iter(NUMBERS.take(20))
            look = Looks(tree, lambda iterator=iterator: iterator)
            for _ in range(20):
                look.count()
            if stopped:
                look.stop()
            assert look.epoch().stretch.elements == elements

    @pytest.fixture
    def looks(self, monkeypatch):
        made = []

        def count(*arguments, **named):
            made.append(arguments)
            return original(*arguments, **named)

        original = profiling.model_of
        monkeypatch.setattr(profiling, "model_of", count)
        return made

    def test_they_are_few_however_many_elements_there_are(self, looks):
        cost = profile(NUMBERS, 0.6)
        assert cost.stretch.elements > 500
        # One whenever the number doubled, one every quarter of a second, the last, and those before the first element.
        assert len(looks) <= math.log2(cost.stretch.elements) + 0.6 / 0.25 + 3 + self.BEFORE_THE_FIRST

    def test_the_last_look_at_a_short_epoch_has_seen_half_of_it(self, looks):
        cost = profile(Dataset.from_tensor_slices(np.arange(100)).map(plus_one), SECONDS)
        assert len(looks) <= (8 + self.BEFORE_THE_FIRST) * (cost.epochs + 1)


class TestStretch:
    @pytest.fixture
    def clock(self, monkeypatch):
        """Stand in for the clocks; half of the time is spent computing."""
        clock = SimpleNamespace(now=5.0)
        clocks = SimpleNamespace(perf_counter=lambda: clock.now, process_time=lambda: clock.now / 2)
        monkeypatch.setattr(profiling, "time", clocks)
        monkeypatch.setattr(profiling, "model_of", lambda iterator: None)
        monkeypatch.setattr(profiling, "counters_in", lambda *arguments, **named: {})
        return clock

    @pytest.mark.parametrize(
        ("warming", "elements", "stretch"),
        [
            (True, 11, Stretch(10, 20.0, 10.0)),
            (False, 11, Stretch(11, 120.0, 60.0)),
            # Of one element nothing else is known.
            (True, 1, Stretch(1, 100.0, 50.0)),
            (False, 1, Stretch(1, 100.0, 50.0)),
        ],
    )
    def test_the_time_in_which_buffers_fill_first_does_not_count(self, clock, warming, elements, stretch):
        looks = Looks(extract(NUMBERS), object, warming=warming)
        clock.now += 100
        looks.count()
        for _ in range(elements - 1):
            clock.now += 2
            looks.count()
        epoch = looks.epoch()
        assert epoch.stretch == stretch
        assert epoch.complete

    def test_an_epoch_that_is_left_is_not_complete(self, clock):
        looks = Looks(extract(NUMBERS), object)
        looks.stop()
        assert not looks.epoch().complete

    def test_an_epoch_of_days_is_looked_at_ever_more_seldom(self, clock):
        looks = Looks(extract(NUMBERS), object)
        for _ in range(20_000):
            clock.now += 1
            looks.count()
        assert 100 < len(looks.epoch().looks) < 300
        assert looks.elements == 20_000

    def test_a_stretch_of_no_time_has_no_rate(self):
        assert Stretch(3, 0.0, 0.0).rate == Stretch(3, 0.0, 0.0).cores == 0


@pytest.mark.parametrize("seconds", [0, 0.1, -1, float("nan"), math.inf, "3", None])
def test_seconds_have_a_law(seconds):
    with pytest.raises(ArgumentError, match=r"seconds must be a finite number >= 0\.2"):
        profile(NUMBERS, seconds)


def test_what_gives_its_elements_only_once_has_the_profile_of_that_once():
    numbers = iter(range(500))
    dataset = tf.data.Dataset.from_generator(lambda: numbers, output_signature=tf.TensorSpec((), tf.int64))
    assert profile(dataset, seconds=1.0).stretch.elements > 400


def test_only_datasets_have_a_profile():
    with pytest.raises(DatasetError, match=r"reads a tf\.data\.Dataset"):
        profile([1, 2, 3])


def tuned(dataset, enabled):
    options = tf.data.Options()
    options.autotune.enabled = enabled
    return dataset.with_options(options)


@pytest.mark.parametrize(
    ("dataset", "untuned"),
    [
        (NUMBERS, False),
        (tuned(NUMBERS, False).map(plus_one), True),
        (tuned(tuned(NUMBERS, False), True), False),
        (tuned(tuned(NUMBERS, True).map(plus_one), False), True),
        (tuned(NUMBERS, False).with_options(tf.data.Options()), True),
    ],
)
def test_it_is_told_where_its_author_turns_autotune_off_with_which_it_was_run(dataset, untuned):
    assert has_autotune(extract(dataset)) is not untuned
    cost = profile(dataset, SECONDS)
    assert cost.untuned is cost.to_dict()["untuned"] is untuned
    said = "run with AUTOTUNE, which the pipeline turns off: TensorFlow counts nothing without it"
    assert (said in " ".join(str(cost).split())) is untuned
    assert cost.stages[-1].elements > 0
