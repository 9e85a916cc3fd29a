import threading
import time
from itertools import count

import pytest

from autopipe.telemetry import Sampler, Span


class Script:
    """A meter that tells what it is told to, one list at a time, and then nothing more."""

    def __init__(self, *told: list[Span]) -> None:
        self.told = list(told)
        self.asked = 0

    def spans(self) -> list[Span]:
        self.asked += 1
        return self.told.pop(0) if self.told else []


def sampled(*spans: Span, keep: int = 4096) -> Sampler:
    with Sampler(Script(list(spans)), keep=keep) as sampler:
        return sampler


def wait_for(meter: Script, asked: int) -> None:
    deadline = time.monotonic() + 10
    while meter.asked < asked and time.monotonic() < deadline:
        time.sleep(0.001)
    assert meter.asked >= asked


def samplers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "autopipe-sampler"]


FIFTHS = (Span(1.0, 1.2, 0.9), Span(1.2, 1.4, 0.5), Span(1.4, 1.6, 0.7), Span(1.6, 1.8, 0.1))


@pytest.mark.parametrize(
    ("since", "until", "mean"),
    [
        (1.2, 1.6, 0.6),
        (1.1, 1.7, 0.6),  # the halves at the edges are also of what was before, and came after
        (1.0, 1.8, 0.55),
        (0.0, 9.0, 0.55),
        (1.3, 1.5, 0.6),  # none lies wholly in between
        (1.3, 1.45, (0.1 * 0.5 + 0.05 * 0.7) / 0.15),
    ],
)
def test_the_mean_is_of_the_spans_wholly_in_between_or_else_of_their_parts(
    since: float, until: float, mean: float
) -> None:
    assert sampled(*FIFTHS).mean((since, until)) == pytest.approx(mean)


@pytest.mark.parametrize(("since", "until"), [(2.3, 2.4), (1.9, 9.0), (0.5, 1.0), (1.3, 1.3)])
def test_of_what_no_span_reaches_there_is_no_mean(since: float, until: float) -> None:
    assert sampled(*FIFTHS).mean((since, until)) is None


@pytest.mark.parametrize(("since", "until"), [(1.8, 1.9), (2.0, 2.1)])
def test_before_the_meter_tells_of_a_stretch_the_latest_span_stands_for_it(since: float, until: float) -> None:
    assert sampled(*FIFTHS).mean((since, until)) == 0.1


def test_several_stretches_have_one_mean() -> None:
    assert sampled(*FIFTHS).mean((0.9, 1.25), (1.5, 1.9)) == pytest.approx((0.9 + 0.1) / 2)
    assert sampled(*FIFTHS).mean((1.05, 1.1), (1.65, 1.7)) == pytest.approx((0.9 + 0.1) / 2)
    assert sampled(*FIFTHS).mean() is None


def test_longer_spans_count_for_more() -> None:
    assert sampled(Span(0.0, 0.3, 0.8), Span(0.3, 0.4, 0.4)).mean((0.0, 0.4)) == pytest.approx(0.7)


def test_a_meter_that_never_tells_has_no_mean() -> None:
    assert sampled().mean((0.0, 9.0)) is None


@pytest.mark.parametrize(
    ("spans", "period"),
    [((Span(0.0, 1.0, 0.5), Span(1.0, 1.2, 0.5)), 0.2), ((Span(0.0, 0.03, 0.5),), 0.1), ((), 0.1)],
)
def test_the_period_is_the_length_of_the_latest_span_or_the_longer_interval(
    spans: tuple[Span, ...], period: float
) -> None:
    assert sampled(*spans).period == pytest.approx(period)


def test_memory_is_bounded_and_the_latest_are_kept() -> None:
    assert sampled(*FIFTHS, keep=2).mean((0.0, 9.0)) == pytest.approx(0.4)


def test_what_comes_later_is_added() -> None:
    meter = Script(*([span] for span in FIFTHS))
    with Sampler(meter, interval=0.001) as sampler:
        wait_for(meter, 5)
    assert sampler.mean((0.0, 9.0)) == pytest.approx(0.55)


def test_starting_and_stopping_many_times_leaves_no_thread() -> None:
    before = set(samplers())
    sampler = Sampler(Script(), interval=60)
    for _ in range(50):
        sampler.start()
        sampler.start()
        assert len(set(samplers()) - before) == 1
        sampler.stop()
        sampler.stop()
    assert set(samplers()) == before


def test_it_goes_on_after_a_stop() -> None:
    meter = Script()
    sampler = Sampler(meter, interval=0.001)
    for turn in count(1):
        with sampler:
            wait_for(meter, 5 * turn)
        asked = meter.asked
        time.sleep(0.01)
        assert meter.asked == asked
        if turn == 3:
            break


def test_a_sampler_that_is_let_go_in_its_own_thread_ends() -> None:
    seen = threading.Event()

    class Unwanted(Script):
        def spans(self) -> list[Span]:
            if self.asked:
                seen.wait(10)
                sampler.stop()
            return super().spans()

    sampler = Sampler(Unwanted(), interval=0.001)
    sampler.start()
    thread = sampler._thread
    seen.set()
    assert thread is not None
    thread.join(10)
    assert not thread.is_alive()


def test_the_mean_of_a_long_time_is_that_of_all_of_it() -> None:
    hour = [Span(fifth / 5, (fifth + 1) / 5, 0.0) for fifth in range(5 * 3600)]
    quarter = [Span(fifth / 5, (fifth + 1) / 5, 1.0) for fifth in range(5 * 3600, 5 * 4500)]
    assert sampled(*hour, *quarter).mean((0.0, 4500.0)) == pytest.approx(0.2)
    assert sampled(*hour, *quarter).mean((1800.0, 4500.0)) == pytest.approx(1 / 3, rel=0.02)
