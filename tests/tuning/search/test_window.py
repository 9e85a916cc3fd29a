"""Windows hold only steps that say something: none just after a change, and no pause between epochs."""

import time

import pytest

from autopipe.telemetry import StallReading
from autopipe.tuning.search.window import WindowMeter


class Stall:
    """A counter that is told what was waited for."""

    def __init__(self):
        self.seconds, self.batches = 0.0, 0

    def read(self):
        return StallReading(self.seconds, self.batches)


def step(meter, stall, seconds=0.002, waiting=0.001):
    time.sleep(seconds)
    stall.seconds += waiting
    stall.batches += 1
    return meter.step(stall, None)


def test_a_window_counts_its_steps_and_their_waiting():
    meter, stall = WindowMeter(least_seconds=0.0), Stall()
    windows = [step(meter, stall) for _ in range(19)]
    complete = [number for number, window in enumerate(windows, 1) if window]
    assert complete == [11, 19]
    assert [windows[number - 1].steps for number in complete] == [8, 8]
    assert abs(windows[10].waiting_seconds - 0.008) < 1e-9
    assert windows[10].seconds >= 0.016


def test_what_passes_between_the_end_of_a_window_and_its_next_step_can_be_left_out():
    meter, stall = WindowMeter(least_seconds=0.0), Stall()
    *_, window = [step(meter, stall) for _ in range(11)]
    assert window.steps == 8
    before, stall.seconds = stall.seconds, stall.seconds + 5.0
    began = meter._stretch.began
    meter.begin_now()
    assert meter._stretch.began > began
    *_, window = [step(meter, stall) for _ in range(8)]
    assert window.waiting_seconds == pytest.approx(stall.seconds - before - 5.0)
    meter.restart()
    meter.begin_now()
    assert meter.so_far() is None


def test_steps_on_what_was_taken_before_make_no_window():
    """Somebody reads ahead: the iterator gave nothing meanwhile."""
    meter, stall = WindowMeter(least_seconds=0.0), Stall()
    assert not any(meter.step(stall, None) for _ in range(20))
    assert meter.so_far() is None
    assert step(meter, stall).steps == 1


def test_the_gpu_counts_from_the_first_step_of_a_window_to_its_last_and_not_in_pauses():
    asked = []

    class Gpu:
        def mean(self, *stretches):
            asked.append(stretches)
            return 0.25

    meter, stall, gpu = WindowMeter(least_seconds=0.0), Stall(), Gpu()
    began = time.perf_counter()
    windows = []
    for number in range(14):
        time.sleep(0.002)
        if number == 5:
            meter.pause()
        stall.batches += 1
        windows.append(meter.step(stall, gpu))
    (before, paused), (again, until) = asked[-1]
    assert windows[-1].gpu == 0.25
    assert before - began >= 3 * 0.002
    assert again - paused >= 3 * 0.002
    assert until - again + paused - before == pytest.approx(windows[-1].seconds)


def test_a_pause_and_a_new_iterator_are_left_out_and_the_window_goes_on():
    meter = WindowMeter(least_seconds=0.0)
    first, second = Stall(), Stall()
    assert not any(step(meter, first) for _ in range(7))
    meter.pause()
    time.sleep(0.5)
    windows = [step(meter, second) for _ in range(7)]
    assert windows[:6] == [None] * 6
    assert windows[6].steps == 8
    assert windows[6].seconds < 0.5


def test_what_is_read_after_the_last_look_is_not_of_the_window():
    meter = WindowMeter(least_seconds=0.0)
    first, second = Stall(), Stall()
    assert not any(step(meter, first) for _ in range(7))
    first.batches, first.seconds = first.batches + 40, 10.0
    windows = [step(meter, second) for _ in range(7)]
    assert windows[6].steps == 8
    assert windows[6].waiting_seconds < 0.1


def test_steps_that_nobody_looked_at_one_by_one_count_as_many():
    meter, stall = WindowMeter(least_seconds=0.0), Stall()
    windows = []
    for _ in range(5):
        stall.batches += 3
        windows.append(meter.step(stall, None, steps=3))
    assert [window and window.steps for window in windows] == [None, None, None, 9, None]


def test_how_fast_iterators_start_is_part_of_the_rate_but_not_of_the_waiting():
    meter = WindowMeter(least_seconds=0.0)
    for _epoch in range(4):
        stall = Stall()
        meter.start()
        step(meter, stall, seconds=0.1, waiting=0.1)
        *_, window = [step(meter, stall) for _ in range(4)]
    assert (window.steps, window.start_steps) == (8, 12)
    assert window.seconds < 0.3 < window.start_seconds
    assert window.waiting_seconds < 0.1
    assert window.rate == 20 / (window.seconds + window.start_seconds)


def test_the_start_of_one_iterator_is_of_no_window():
    meter, stall = WindowMeter(least_seconds=0.0), Stall()
    meter.start()
    *_, window = [step(meter, stall) for _ in range(11)]
    assert (window.steps, window.start_steps, window.start_seconds) == (8, 0, 0.0)


def test_a_start_before_a_pause_is_left_out():
    meter = WindowMeter(least_seconds=0.0)
    for _epoch in range(4):
        stall = Stall()
        meter.start()
        meter.pause()
        *_, window = [step(meter, stall) for _ in range(5)]
    assert (window.steps, window.start_steps) == (8, 0)


def test_the_counter_of_a_long_window_is_read_ever_less_often():
    class CountedStall(Stall):
        reads = 0

        def read(self):
            self.reads += 1
            return super().read()

    meter, stall = WindowMeter(least_seconds=60.0), CountedStall()
    assert not any(step(meter, stall, seconds=0.0) for _ in range(1000))
    assert 2 <= stall.reads < 100


def test_a_restart_forgets_the_window_under_way():
    meter, stall = WindowMeter(least_seconds=0.0), Stall()
    assert not any(step(meter, stall) for _ in range(10))
    meter.restart()
    windows = [step(meter, stall, waiting=0.5) for _ in range(11)]
    assert windows[:10] == [None] * 10
    assert windows[10].waiting_seconds == pytest.approx(4.0)


def test_a_window_lasts_as_long_as_it_must():
    meter, stall = WindowMeter(least_seconds=0.05), Stall()
    window = None
    while window is None:
        window = step(meter, stall)
    assert window.seconds >= 0.05
    assert 0 <= window.busy <= 1
    assert window.rate == window.steps / window.seconds
