"""What several tests share."""

import gc
import os
import sys
from collections import defaultdict

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import hiding
from autograph_files import parse_each_file_once
from hypothesis import HealthCheck, settings
from nvidia_driver import fake_driver, run

__all__ = ["fake_driver", "run"]

_ALL = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]
settings.register_profile("usual", max_examples=5, deadline=None, suppress_health_check=_ALL)
settings.register_profile("deep", max_examples=1000, deadline=None, suppress_health_check=_ALL)
settings.load_profile("usual")
hiding.hide()


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported stays: to look through a million objects for garbage takes half a second each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        hiding.show()
        gc.freeze()
        gc.enable()
        if "tensorflow" in sys.modules:
            parse_each_file_once()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    _leave_cases_to_the_deep_run(items)
    # ``make unit`` looks for what is timed only where these words stand; elsewhere it would not run at all.
    for item in items:
        if item.get_closest_marker("timed") and "mark.timed" not in item.path.read_text():
            raise pytest.UsageError(f'A test that is timed has "mark.timed" in its file, but {item.nodeid} has not.')


def _leave_cases_to_the_deep_run(items):
    """Mark all cases of each test that is marked ``one_in(n)`` as deep, except one in n."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("one_in"):
            cases[item.path, item.originalname].append(item)
    for same in cases.values():
        for number, item in enumerate(sorted(same, key=lambda each: each.name)):
            if number % item.get_closest_marker("one_in").args[0]:
                item.add_marker("deep")


@pytest.fixture
def as_fast(monkeypatch):
    """What the whole pipeline takes is not what is tested: no clock decides whether it stays as it was rewritten."""
    whole_speed = "autopipe.planning.measuring.measure.SampleMeasurements.whole_speed"
    monkeypatch.setattr(whole_speed, lambda *_, **__: (1.0, 1.0, 1.0))


@pytest.fixture(autouse=True)
def _no_seed_is_left():
    """A seed of the whole process would make every shuffle of later tests one that its author seeded."""
    yield
    if "tensorflow" in sys.modules:
        from tensorflow.python.eager import context as eager

        assert eager.global_seed() is None
