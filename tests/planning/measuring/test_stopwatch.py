"""A gain is told from noise by pairs of neighbouring windows."""

from itertools import chain, cycle, repeat

import pytest

from autopipe.planning.measuring import stopwatch
from autopipe.planning.measuring.stopwatch import Stopwatch, _is_undecided, around_median


@pytest.mark.parametrize(
    ("ratios", "undecided"),
    [
        ([1.2, 1.3], True),
        ([2.0, 2.1], False),
        ([1.2, 1.3, 1.2], False),
        ([2.0, 2.1, 1.9, 2.0, 0.5], False),
        ([0.9, 0.8, 0.9, 0.9, 3.0], False),
        ([1.6, 0.9, 1.6, 0.8, 1.6], True),
        ([1.6, 0.9] * 7 + [1.6], False),
        ([1.02, 0.9, 1.01, 1.1, 1.02], False),
        ([0.7, 0.5, 1.2], True),
        ([0.7, 0.5, 0.8], False),
    ],
    ids=[
        "few",
        "clear gain",
        "small gain",
        "gain",
        "loss",
        "hidden by noise",
        "enough",
        "too little",
        "loss or noise",
        "clear loss",
    ],
)
def test_pairs_are_measured_until_a_gain_is_told_from_noise(ratios, undecided):
    assert _is_undecided(ratios) is undecided


@pytest.mark.parametrize(
    ("ratios", "undecided"),
    [([0.9, 0.8, 0.9, 0.9, 3.0], False), ([0.9, 1.2, 0.9, 1.1, 0.8], True), ([0.9, 0.8, 0.9], True)],
)
def test_where_a_loss_counts_too_it_is_told_from_noise(ratios, undecided):
    assert _is_undecided(ratios, both_ways=True) is undecided


def test_one_window_in_five_that_is_ten_times_too_long_moves_no_bound():
    assert around_median([1.5, 1.6, 15.0, 1.4, 1.5]) == (1.5, 1.5, 1.6)
    assert around_median([2.0, 1.0]) == (1.5, 1.0, 2.0)


class ScriptedWatch:
    """Takes as long for a batch as it is told, first while it warms up."""

    def __init__(self, seconds):
        self._seconds = iter(seconds)
        self.start_seconds = 0.0
        self.usual_seconds = 0.0
        self.turns = 0

    def warm_up(self):
        return next(self._seconds)

    def seconds_per_batch(self, window):
        self.turns += 1
        return next(self._seconds)


@pytest.mark.parametrize(
    ("before", "after", "pairs", "median"),
    [
        ([0.08, 0.08], [0.01, 0.02], 1, 6.0),
        ([0.01, 0.02], [0.08, 0.08], 1, 0.1875),
        ([0.02, 0.08, 0.08], [0.01, 0.01, 0.01], 2, 8.0),
        ([0.08, 0.02, 0.02], [0.01, 0.01, 0.01], 2, 2.0),
        ([0.08, 0.01, 0.01], [0.01, 0.08, 0.08], 2, 0.125),
    ],
    ids=["faster", "slower", "not while warming up", "not in its turn", "not the same one"],
)
def test_what_is_far_apart_twice_is_not_compared_a_second_time(monkeypatch, before, after, pairs, median):
    watches = []
    monkeypatch.setattr(stopwatch, "Stopwatch", lambda seconds: watches.append(ScriptedWatch(seconds)) or watches[-1])
    found, _, _ = stopwatch.compare_speeds(before, after, seconds=60.0)
    assert found == pytest.approx(median)
    assert [watch.turns for watch in watches] == [pairs, pairs]


@pytest.mark.parametrize(
    ("taken", "turns", "longer"),
    [([0.5], 0, True), ([0.01], 0, False), ([0.2, 0.11], 1, True), ([0.2, 0.09], 1, False)],
    ids=["far above", "far below", "above", "below, but not while warming up"],
)
def test_of_a_single_pipeline_what_is_near_is_timed_for_longer(monkeypatch, taken, turns, longer):
    watch = ScriptedWatch(taken)
    monkeypatch.setattr(stopwatch, "Stopwatch", lambda dataset: watch)
    assert stopwatch.longer_than(taken, 0.1) is longer
    assert watch.turns == turns


class Starting:
    """Stands in for a watch: a batch takes 10 ms, and each start what it is told."""

    usual_seconds = 0.01

    def __init__(self, starts):
        self.start_seconds = next(starts)

    def warm_up(self):
        return self.usual_seconds

    def seconds_per_batch(self, window):
        return self.usual_seconds


@pytest.mark.parametrize(
    ("epoch", "starts", "ratio"),
    [
        (float("inf"), ([9.0], [9.0]), 1.0),
        (1000, ([0.1], [0.4]), 1.0),
        (10, ([0.1] * 4, [0.4] * 4), (0.01 + 0.01) / (0.01 + 0.04)),
        (10, ([0.1] * 4, [9.0, 0.2, 0.1, 0.3]), 1.0),
    ],
    ids=["no end", "long", "short", "only the first is slow"],
)
def test_what_it_takes_to_start_counts_where_epochs_are_short(monkeypatch, epoch, starts, ratio):
    monkeypatch.setattr(stopwatch, "Stopwatch", Starting)
    median, _, _ = stopwatch.compare_speeds(*map(iter, starts), seconds=60.0, epoch=epoch)
    assert median == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("starts", "looked_at", "ratio"),
    [
        (([2.0, 2.0], [8.0, 4.0]), 2, (0.01 + 0.2) / (0.01 + 0.4)),
        (([0.1, 0.1], [0.4, 0.1]), 2, 1.0),
        (([0.1, 0.1, 0.1], [0.4, 0.2, 0.1]), 3, 1.0),
    ],
    ids=["for it takes long", "for it would change nothing", "to know more"],
)
def test_how_often_a_start_is_looked_at(monkeypatch, starts, looked_at, ratio):
    clock = Clock(monkeypatch)
    made = []

    class Slow(Starting):
        def __init__(self, starts):
            super().__init__(starts)
            clock.now += self.start_seconds
            made.append(self)

    monkeypatch.setattr(stopwatch, "Stopwatch", Slow)
    median, _, _ = stopwatch.compare_speeds(*map(iter, starts), seconds=3.0, epoch=10)
    assert median == pytest.approx(ratio)
    assert len(made) == 2 * looked_at


@pytest.mark.parametrize(("start", "turns"), [(0.1, 15), (2.0, 2)])
def test_what_it_takes_to_start_is_of_the_time_there_is(monkeypatch, start, turns):
    clock = Clock(monkeypatch)
    watches = []

    class Late(ScriptedWatch):
        def __init__(self, seconds):
            super().__init__(seconds)
            clock.now += start
            watches.append(self)

    monkeypatch.setattr(stopwatch, "Stopwatch", Late)
    stopwatch.compare_speeds(cycle([0.03, 0.02]), repeat(0.02), seconds=3.0)
    assert [watch.turns for watch in watches] == [turns, turns]


@pytest.mark.parametrize(("window", "first"), [(4.0, "bnnb"), (0.1, "bnbnnbnb")], ids=["slow", "fast"])
def test_each_goes_first_also_where_there_is_time_for_two_pairs_only(monkeypatch, window, first):
    clock = Clock(monkeypatch)
    order = []

    class Noted(ScriptedWatch):
        def __init__(self, name):
            super().__init__(cycle([0.02, 0.02, 0.03] if name == "b" else [0.02]))
            self.name = name

        def seconds_per_batch(self, seconds):
            clock.now += window
            order.append(self.name)
            return super().seconds_per_batch(seconds)

    monkeypatch.setattr(stopwatch, "Stopwatch", Noted)
    stopwatch.compare_speeds("b", "n", seconds=3.0)
    assert "".join(order).startswith(first)
    assert len(order) == 4 or window < 1


class Clock:
    """Goes on only where a pipeline works, so that nothing else on the machine can make a batch late."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        self.drawn = 0
        monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: self.now)

    def batches(self, seconds_of_batch):
        for seconds in seconds_of_batch:
            self.now += seconds
            self.drawn += 1
            yield None


@pytest.mark.parametrize("ready", [0, 1, 5, 20])
def test_what_was_ready_before_its_turn_does_not_count(monkeypatch, ready):
    """Some come at once after a rest, as from a buffer; each of the others takes 10 ms."""
    clock = Clock(monkeypatch)
    made = {"ready": 0}

    def seconds():
        while True:
            at_once, made["ready"] = made["ready"] > 0, max(made["ready"] - 1, 0)
            yield 0.0 if at_once else 0.01

    watch = Stopwatch(clock.batches(seconds()))
    watch.warm_up()
    for _ in range(3):
        made["ready"] = ready
        assert watch.seconds_per_batch(0.05) == pytest.approx(0.01)


def test_batches_that_were_slow_while_warming_up_do_not_make_the_windows_short(monkeypatch):
    clock = Clock(monkeypatch)
    watch = Stopwatch(clock.batches(chain([0.02] * 3, repeat(0.001))))
    assert watch.warm_up() == pytest.approx(0.02)
    for _ in range(2):
        drawn = clock.drawn
        assert watch.seconds_per_batch(0.05) == pytest.approx(0.001, rel=0.5)
        assert clock.drawn - drawn >= 30


def test_what_comes_in_bursts_is_timed_with_the_wait_for_them(monkeypatch):
    """A map with many calls at once hands on as many elements, and then none for as long as those take."""
    clock = Clock(monkeypatch)
    watch = Stopwatch(clock.batches(cycle([0.08] + [0.0] * 15)))
    watch.warm_up()
    assert watch.seconds_per_batch(0.025) == pytest.approx(0.005)


def test_what_takes_very_long_to_start_starts_once(monkeypatch):
    monkeypatch.setattr(stopwatch, "Stopwatch", Starting)
    median, _, _ = stopwatch.compare_speeds(iter([45.0]), iter([0.1]), seconds=60.0, epoch=10)
    assert median == pytest.approx((0.01 + 4.5) / (0.01 + 0.01))
