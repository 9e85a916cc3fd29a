"""What several tests of rules need."""

import pytest


@pytest.fixture(autouse=True)
def as_fast(monkeypatch):
    """What the whole pipeline takes is not what is tested: no clock decides."""
    monkeypatch.setattr("autopipe.planning.measure.SampleMeasurements.whole_speed", lambda *_: (1.0, 1.0, 1.0))
