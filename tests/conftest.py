"""What several tests share."""

import os
import sys

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from hypothesis import HealthCheck, settings
from nvidia_driver import fake_driver, run

__all__ = ["fake_driver", "run"]

_ALL = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]
settings.register_profile("usual", max_examples=50, deadline=None, suppress_health_check=_ALL)
settings.register_profile("deep", max_examples=1000, deadline=None, suppress_health_check=_ALL)
settings.load_profile("usual")


@pytest.fixture(autouse=True)
def _no_seed_is_left():
    """A seed of the whole process would make every shuffle of later tests one that its author seeded."""
    yield
    if "tensorflow" in sys.modules:
        from tensorflow.python.eager import context as eager

        assert eager.global_seed() is None
