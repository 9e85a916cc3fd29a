import time

import psutil
import pytest

from autopipe.errors import ArgumentError
from autopipe.telemetry import HostMeter


def burn(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


@pytest.mark.timed
def test_a_busy_process_uses_about_the_share_of_its_cores_that_it_burns() -> None:
    meter = HostMeter(cores=4)
    began = time.perf_counter()
    burn(0.2)
    share = 0.2 / (time.perf_counter() - began) / 4
    reading = meter.read()
    assert reading is not None
    assert reading.utilization == pytest.approx(share, rel=0.3)
    assert reading.host_utilization is None or 0 < reading.host_utilization <= 1


@pytest.mark.timed
def test_its_utilization_alone_is_that_since_it_was_told_before_in_either_way() -> None:
    meter = HostMeter(cores=1)
    burn(0.1)
    assert meter.read() is not None
    burn(0.1)
    burnt = meter.utilization()
    time.sleep(0.1)
    slept = meter.utilization()
    assert burnt is not None
    assert slept is not None
    assert slept < 0.5 * burnt


@pytest.mark.timed
def test_a_sleeping_process_uses_next_to_nothing_since_the_reading_before() -> None:
    meter = HostMeter(cores=1)
    burn(0.1)
    meter.read()
    time.sleep(0.1)
    reading = meter.read()
    assert reading is not None
    assert reading.utilization < 0.5


def test_memory_is_that_of_the_process_and_of_the_host() -> None:
    reading = HostMeter().read()
    assert reading is not None
    assert 2**20 < reading.process_bytes < psutil.virtual_memory().total
    assert 0 < reading.available_bytes < psutil.virtual_memory().total


def test_shares_stay_between_zero_and_one_however_short_the_window() -> None:
    meter = HostMeter(cores=0.01)
    readings = [meter.read() for _ in range(200)]
    assert all(reading is not None and 0 <= reading.utilization <= 1 for reading in readings)


def test_a_closed_meter_reads_none() -> None:
    meter = HostMeter()
    meter.close()
    assert meter.utilization() is None
    meter.close()
    assert meter.read() is None


@pytest.mark.parametrize("cores", [0, -1.0, float("nan")])
def test_a_share_of_no_cores_is_refused(cores: float) -> None:
    with pytest.raises(ArgumentError, match="`cores` must be above 0, but got"):
        HostMeter(cores)
