import threading
import time
from itertools import count

import pytest

from autopipe.errors import ArgumentError
from autopipe.telemetry import DeviceReading, GpuReading, Sampler


class Script:
    """A meter that reads what it is told, and the last of it for ever."""

    def __init__(self, *utilizations: float | None) -> None:
        self.utilizations = list(utilizations)
        self.readings = 0

    def read(self) -> GpuReading | None:
        value = self.utilizations.pop(0) if len(self.utilizations) > 1 else self.utilizations[0]
        self.readings += 1
        return None if value is None else GpuReading((DeviceReading(0, "", value, 0, 0),))

    def close(self) -> None:
        pass


def wait_for(meter: Script, readings: int) -> None:
    deadline = time.monotonic() + 10
    while meter.readings < readings and time.monotonic() < deadline:
        time.sleep(0.001)
    assert meter.readings >= readings


def samplers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "autopipe-sampler"]


def test_the_mean_is_of_the_samples_since_the_mark() -> None:
    meter = Script(1.0, 0.25, 0.75, 0.5)
    sampler = Sampler(meter, interval=0.001)
    beginning = sampler.mark()
    with sampler:
        assert sampler.mark() >= 1
        wait_for(meter, 10)
    later = sampler.mark()
    assert sampler.mean(1) == 0.5
    assert sampler.mean(beginning) == pytest.approx(0.5 + 0.5 / later)
    assert sampler.mean(later) is None


def test_readings_that_are_none_count_for_nothing() -> None:
    meter = Script(None, 0.5, None)
    with Sampler(meter, interval=0.001) as sampler:
        wait_for(meter, 5)
    assert sampler.mark() == 1
    assert sampler.mean(0) == 0.5


def test_a_meter_that_never_reads_has_no_mean() -> None:
    with Sampler(Script(None), interval=0.001) as sampler:
        assert sampler.mean(sampler.mark()) is None


def test_memory_is_bounded_and_an_old_mark_means_all_that_is_kept() -> None:
    meter = Script(1.0, 1.0, 0.5)
    with Sampler(meter, interval=0.001, keep=3) as sampler:
        wait_for(meter, 12)
    assert sampler.mean(0) == 0.5


def test_starting_and_stopping_many_times_leaves_no_thread() -> None:
    before = set(samplers())
    sampler = Sampler(Script(0.5), interval=60)
    for _ in range(50):
        sampler.start()
        sampler.start()
        assert len(set(samplers()) - before) == 1
        sampler.stop()
        sampler.stop()
    assert set(samplers()) == before


def test_it_goes_on_after_a_stop() -> None:
    meter = Script(0.5)
    sampler = Sampler(meter, interval=0.001)
    for turn in count(1):
        with sampler:
            wait_for(meter, 5 * turn)
        seen = sampler.mark()
        time.sleep(0.01)
        assert sampler.mark() == seen
        if turn == 3:
            break


@pytest.mark.parametrize("wrong", [{"interval": 0}, {"interval": -1}, {"interval": float("nan")}, {"keep": 0}])
def test_arguments_outside_their_law_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=f"`{next(iter(wrong))}` must be .* but got"):
        Sampler(Script(0.5), **wrong)  # type: ignore[arg-type]
