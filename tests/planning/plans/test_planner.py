"""The pipeline as a whole is never given back slower than it was."""

from dataclasses import replace

import pytest
import tensorflow as tf

from autopipe.errors import DatasetError
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.planning.disk.disk_cache import DiskCache
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.planning.plans.planner import plan
from autopipe.rules import Keeps, MeasurementError, Phase, Rewrite, Rule, catalogue
from sides import AlwaysFaster, named

WRITTEN = extract(tf.data.Dataset.range(500).map(lambda x: x * 3).filter(lambda x: x % 2 == 1).batch(16).repeat(2))


class Wholes(AlwaysFaster):
    """Says how fast a whole pipeline is by what is in it; the first figure that fits."""

    def __init__(self, *figures):
        super().__init__()
        object.__setattr__(self, "figures", figures)
        object.__setattr__(self, "asked", [])

    def whole_speed(self, before, after, **given):
        self.asked.append(one_line(after))
        speed = next(speed for part, speed in self.figures if part in one_line(after))
        return speed, speed * 0.98, speed * 1.02


def planned(measurements, rules=None):
    return plan(WRITTEN, rules or catalogue(), keeps=Keeps.TRAINING, measurements=measurements)


def test_what_is_not_slower_as_a_whole_is_taken_and_asked_about_once():
    wholes = Wholes(("", 1.0))
    rules = [rule for rule in catalogue() if not rule.name.startswith("cache")]
    done = planned(wholes, rules)
    assert done.steps
    assert done.whole.startswith("measured 1.00x (0.98-1.02) the speed of the pipeline as written")
    assert len(wholes.asked) == 1


def test_what_lost_is_tried_with_fewer_kinds_of_rules_and_the_fastest_is_taken():
    wholes = Wholes(("where", 0.5), ("calls=", 1.4), ("", 1.1))
    done = planned(wholes)
    assert "calls=" in one_line(done.after)
    assert done.whole.startswith("measured 1.40x")
    assert "filter_batches" not in {step.rule for step in done.steps}
    (refused,) = [each for each in done.refusals if each.rule == "filter_batches"]
    assert "as a whole it measured 0.50x the speed of the pipeline as written" in refused.reason


def test_what_runs_as_it_was_written_once_caches_are_full_is_not_said_to_be_measured():
    done = planned(Wholes(("", 1.0)))
    assert done.whole.startswith("measured 1.00x")

    class Same(Wholes):
        def whole_speed(self, before, after, **given):
            return 1.0, 1.0, 1.0

    assert planned(Same()).whole is None


def test_where_all_lost_nothing_is_changed():
    done = planned(Wholes(("", 0.5)))
    assert done.after == done.before == WRITTEN
    assert not done.steps
    assert done.whole is None
    assert any("as a whole it measured 0.50x" in each.reason for each in done.refusals)


class NoSample(AlwaysFaster):
    """Finds that all of a sample fails, which stands without the shuffles and repeats of the pipeline."""

    def speed(self, before, after, over):
        raise MeasurementError(self.exhausted) if self.exhausted else DatasetError("every one tried raised")


def failing(x):
    return tf.debugging.check_numerics(tf.math.log(tf.cast(x, tf.float32) - 1000.0), "negative")


def test_where_a_sample_fails_and_the_pipeline_does_not_it_is_planned_without_measuring():
    measurements = NoSample()
    done = planned(measurements)
    assert measurements.exhausted == "a sample of it fails, and the pipeline itself need not: every one tried raised."
    assert any(each.reason == measurements.exhausted for each in done.refusals)
    assert one_line(done.after).endswith("prefetch(AUTOTUNE)")


def test_where_the_pipeline_fails_like_its_sample_that_is_an_error():
    tree = extract(tf.data.Dataset.range(500).map(failing))
    with pytest.raises(DatasetError, match="every one tried"):
        plan(tree, catalogue(), keeps=Keeps.TRAINING, measurements=NoSample())


def test_what_lost_by_chance_is_measured_again():
    class Chance(Wholes):
        def whole_speed(self, before, after, **given):
            self.asked.append(after)
            return (0.5, 0.4, 0.6) if len(self.asked) == 1 else (1.0, 0.9, 1.1)

    wholes = Chance()
    assert planned(wholes).steps
    assert len(wholes.asked) == 2


JPEG = tf.io.encode_jpeg(tf.zeros((32, 32, 3), tf.uint8)).numpy()
ROWS = tf.data.Dataset.range(64).map(lambda x: tf.math.lgamma(tf.cast(x, tf.float32) + 1.5)).shuffle(8).batch(16)


@pytest.mark.parametrize(("by_the_batch", "cached"), [(0.9, True), (1.0, False), (3.0, False)])
def test_a_cache_must_be_faster_than_the_same_work_by_the_batch(by_the_batch, cached):
    wholes = Wholes(("vectorized", by_the_batch), ("", 2.0))
    done = plan(extract(ROWS), catalogue(), keeps=Keeps.TRAINING, measurements=wholes)
    assert ("cache()" in one_line(done.after)) is cached
    assert ("vectorized" in one_line(done.after)) is not cached
    reasons = [each.reason for each in done.refusals if each.rule == "cache_fixed_work"]
    assert cached or any(f"the whole measured {by_the_batch:.2f}x its speed" in each for each in reasons)


def test_a_cache_that_seemed_slower_once_is_kept():
    class Chance(Wholes):
        def whole_speed(self, before, after, **given):
            self.asked.append(after)
            speed = 2.2 if len(self.asked) == 1 else 0.4 if len(self.asked) == 2 else 1.0
            return speed, speed, speed

    done = plan(extract(ROWS), catalogue(), keeps=Keeps.TRAINING, measurements=Chance())
    assert "cache()" in one_line(done.after)


def decode(jpeg):
    return tf.ensure_shape(tf.io.decode_jpeg(jpeg, channels=3), (32, 32, 3))


def brighten(image):
    return tf.cast(image, tf.float32) / 255.0 + tf.random.uniform((), -0.1, 0.1)


def test_a_cache_is_not_doubted_for_work_that_a_batch_does_beside_it_too():
    wholes = Wholes(("", 2.0))
    images = tf.data.Dataset.from_tensors(JPEG).repeat(64).map(decode)
    done = plan(extract(images.map(brighten).batch(16)), catalogue(), keeps=Keeps.TRAINING, measurements=wholes)
    assert {"cache_fixed_work", "vectorize_rest"} <= {step.rule for step in done.steps}
    assert len(wholes.asked) == 1


def upper(x):
    return tf.strings.upper(tf.strings.as_string(x))


def draw(x):
    return tf.fill((256, 256), tf.strings.to_hash_bucket(x, 9))


class TwoPlaces(Wholes):
    """Memory has room for strings but not for pictures; the disk has room for both."""

    def __init__(self, folder, making, from_disk):
        super().__init__(("", 2.0))
        object.__setattr__(self, "ram_budget", 10**6)
        object.__setattr__(self, "disk", DiskCache(folder))
        object.__setattr__(self, "prices", (making, from_disk))

    def bytes_beside_caches(self, pipeline):
        return 0

    def caching(self, node, *, on_disk=False):
        making, from_disk = self.prices
        return making[isinstance(node.input, ir.Map)], from_disk if on_disk else 1e-5


@pytest.mark.parametrize(
    ("making", "from_disk", "kept"),
    [
        ((1e-3, 9e-3), 1e-3, "map(upper) | map(draw) | cache(on disk)"),
        ((9e-3, 10e-3), 2e-3, "map(upper) | cache()"),
        ((9e-3, 8e-3), 1e-3, "map(upper) | cache()"),
    ],
    ids=["the later work is the most", "the earlier work is the most", "no later work"],
)
def test_of_memory_and_disk_the_one_that_saves_more_is_taken(tmp_path, making, from_disk, kept):
    tree = extract(tf.data.Dataset.range(100).map(upper).map(draw))
    rules = [named("cache_fixed_work"), named("cache_fixed_work_on_disk")]
    done = plan(tree, rules, keeps=Keeps.SEQUENCE, measurements=TwoPlaces(tmp_path, making, from_disk))
    assert kept in one_line(done.after)
    reasons = [each.reason for each in done.refusals if each.rule == "cache_fixed_work_on_disk"]
    in_memory = "on disk" not in kept
    assert any(f"{from_disk * 1e6:,.0f} us to read from disk in every epoch" in each for each in reasons) is in_memory


def test_where_the_whole_cannot_be_run_what_each_rule_proved_must_do():
    class Unmeasurable(Wholes):
        def whole_speed(self, before, after, **given):
            raise MeasurementError("nothing to run")

    done = planned(Unmeasurable())
    assert done.steps
    assert done.whole == "not known: nothing to run"


@pytest.mark.parametrize(("failing", "kept"), [([], True), (["after"], False), (["before", "after"], True)])
def test_what_fails_as_a_whole_where_the_pipeline_does_not_is_not_given_back(failing, kept):
    class Failing(Wholes):
        def whole_speed(self, before, after, **given):
            raise MeasurementError("every one raised") from tf.errors.InvalidArgumentError(None, None, "raised")

        def fails(self, pipeline):
            return ("before" if pipeline == WRITTEN else "after") in failing

    done = planned(Failing())
    assert bool(done.steps) is (done.after != WRITTEN) is kept
    assert kept is not any(each.reason == "as a whole it fails: every one raised" for each in done.refusals)


def test_a_rule_whose_result_raises_at_the_first_element_is_not_applied():
    wrong = extract(tf.data.Dataset.range(500).map(lambda x: x // (x - x))).fn

    def divide(node):
        """map(f) -> map(g)."""
        return Rewrite(replace(node, fn=wrong)) if isinstance(node, ir.Map) and node.fn != wrong else None

    done = plan(WRITTEN, [Rule("divide", Keeps.SEQUENCE, divide)], keeps=Keeps.TRAINING, measurements=AlwaysFaster())
    assert done.after == WRITTEN
    (refusal,) = done.refusals
    assert refusal.reason.startswith("as a whole it fails: ")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("measured", [1, 2, 3], ids=["once", "twice", "and one of the others"])
def test_what_lost_is_not_taken_because_the_time_is_up(measured):
    class OutOfTime(Wholes):
        def whole_speed(self, before, after, **given):
            if len(self.asked) == measured:
                raise MeasurementError("the 30 seconds are used up")
            return super().whole_speed(before, after, **given)

    rules = [rule for rule in catalogue() if not rule.name.startswith("cache")]
    done = planned(OutOfTime(("", 0.5)), rules)
    assert not done.steps
    assert any("as a whole it measured 0.50x" in each.reason for each in done.refusals)


def test_no_time_is_no_measuring():
    done = planned(SampleMeasurements(seconds=0))
    assert not [step for step in done.steps if named(step.rule).measures]
    assert {each.reason for each in done.refusals if each.rule == "parallel_map"} == {
        "it must be measured, and optimize(seconds=0) leaves no time for that"
    }


@pytest.mark.timed
@pytest.mark.parametrize("shuffled", [False, True])
def test_later_epochs_are_compared_by_what_a_full_cache_serves(shuffled):
    slow = tf.data.Dataset.range(64).map(lambda x: tf.reduce_sum(tf.linalg.matmul(*[tf.fill((800, 800), x)] * 2)))
    before = slow.shuffle(10**9) if shuffled else slow
    after = slow.cache().shuffle(10**9) if shuffled else slow.cache()
    median, _, _ = SampleMeasurements().whole_speed(extract(before), extract(after))
    assert median > 2


def test_a_cache_that_did_not_fit_memory_is_not_missed_for_its_speed():
    jpeg = tf.io.encode_jpeg(tf.zeros((32, 32, 3), tf.uint8)).numpy()
    floats = (
        tf.data.Dataset.from_tensors(jpeg)
        .repeat(10)
        .map(lambda x: tf.cast(tf.ensure_shape(tf.io.decode_jpeg(x, channels=3), (32, 32, 3)), tf.float32) * 2.0)
    )

    class Small(Wholes):
        def bytes_beside_caches(self, pipeline):
            return 0

    wholes = Small(("", 0.5))
    object.__setattr__(wholes, "ram_budget", 60_000)
    done = plan(extract(floats.cache()), catalogue(), keeps=Keeps.SEQUENCE, measurements=wholes)
    assert "cache_fewer_bytes" in {step.rule for step in done.steps}
    assert not wholes.asked


def test_the_budget_holds_too_where_the_whole_could_not_be_measured():
    jpeg = tf.io.encode_jpeg(tf.zeros((32, 32, 3), tf.uint8)).numpy()
    images = tf.data.Dataset.from_tensors(jpeg).repeat(10).map(lambda x: tf.io.decode_jpeg(x, channels=3)).batch(2)

    class Grown(Wholes):
        grown = 0

        def whole_speed(self, before, after, **given):
            object.__setattr__(self, "grown", 10**15)
            raise MeasurementError("nothing to run")

        def bytes_beside_caches(self, pipeline):
            return self.grown

    done = plan(extract(images), catalogue(), keeps=Keeps.TRAINING, measurements=Grown())
    assert "cache_fixed_work" not in {step.rule for step in done.steps}
    assert any("above the RAM budget" in each.reason for each in done.refusals if each.rule == "cache_fixed_work")


def test_what_is_left_without_caches_for_want_of_memory_is_measured_as_a_whole_too():
    jpeg = tf.io.encode_jpeg(tf.zeros((32, 32, 3), tf.uint8)).numpy()
    images = tf.data.Dataset.from_tensors(jpeg).repeat(10).map(lambda x: tf.io.decode_jpeg(x, channels=3)).batch(2)

    class Grown(Wholes):
        def whole_speed(self, before, after, **given):
            keeps = any(trees.keeping(after))
            object.__setattr__(self, "grown", 10**15)
            return (2.0, 1.9, 2.1) if keeps else (0.5, 0.4, 0.6)

        def bytes_beside_caches(self, pipeline):
            return getattr(self, "grown", 0)

    done = plan(extract(images), catalogue(), keeps=Keeps.TRAINING, measurements=Grown())
    assert not done.steps
    reasons = [each.reason for each in done.refusals]
    assert any("above the RAM budget" in reason for reason in reasons)
    assert any("as a whole it measured 0.50x" in reason for reason in reasons)


class Epochs(Wholes):
    """Says what a cache saves, how long an epoch takes, and that all wholes are as fast."""

    def __init__(self, saved, epoch, size=2**28):
        super().__init__(("", 1.0))
        object.__setattr__(self, "saved", saved)
        object.__setattr__(self, "epoch", epoch)
        object.__setattr__(self, "size", size)

    def caching(self, node, *, on_disk=False):
        return self.saved + 1e-6, 1e-6

    def epoch_outlasts(self, pipeline, seconds):
        return self.epoch > seconds

    def cache_bytes(self, node):
        return self.size


@pytest.mark.parametrize(
    ("measured", "kept"),
    [
        (Epochs(100e-6, 2.0), True),
        (Epochs(100e-6, 4.0), False),
        (Epochs(100e-6, 4.0, size=2**20), True),
        (Epochs(600e-6, 100.0), True),
    ],
    ids=["a twentieth of an epoch", "a fortieth", "a fortieth, of a small cache", "much of an element"],
)
@pytest.mark.parametrize("repeats", [1, 10])
def test_a_large_cache_that_saves_next_to_nothing_is_left_out(measured, kept, repeats):
    images = tf.data.Dataset.from_tensor_slices([JPEG] * (1000 // repeats)).map(decode)
    written = extract(images.repeat(repeats).map(brighten))
    rules = [rule for rule in catalogue() if rule.phase is not Phase.BATCH]
    done = plan(written, rules, keeps=Keeps.TRAINING, measurements=measured)
    assert ("cache()" in one_line(done.after)) is kept
    reasons = [each.reason for each in done.refusals if each.rule.startswith("cache")]
    assert kept or "without it, the whole measured 1.00x its speed" in reasons


def test_a_cache_that_may_be_read_any_number_of_times_is_no_small_gain():
    images = tf.data.Dataset.from_tensor_slices([JPEG] * 100).map(decode).repeat().map(brighten).take(1000)
    rules = [rule for rule in catalogue() if rule.phase is not Phase.BATCH]
    done = plan(extract(images), rules, keeps=Keeps.TRAINING, measurements=Epochs(100e-6, 100.0))
    assert "cache()" in one_line(done.after)
