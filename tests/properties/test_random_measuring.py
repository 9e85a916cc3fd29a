"""Whatever a pipeline gives, planning measures it or says why it cannot, and what comes of it keeps its promise."""

import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pipelines import Recipe, recipes

from autopipe.errors import DatasetError
from autopipe.pipeline.extract import extract
from autopipe.planning.measuring import measure
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.planning.plans.planner import plan
from autopipe.rules import Keeps, catalogue
from autopipe.verify import verify

LIMIT = 60
TRIED = max(settings().max_examples // 4, 1)


class AsksAll(SampleMeasurements):
    """Measures everything, and calls it a gain whatever comes out, so that the next thing is asked too."""

    def working(self, mapped):
        super().working(mapped)
        return 1.0, 0.0

    def caching(self, node, *, on_disk=False):
        super().caching(node, on_disk=on_disk)
        self._sample_source(node)
        return 1.0, 0.0

    def speed(self, before, after, over):
        super().speed(before, after, over)
        return 2.0, 1.5, 2.5

    def whole_speed(self, before, after, consumer_seconds=0.0):
        super().whole_speed(before, after, consumer_seconds)
        return 2.0, 1.5, 2.5


@pytest.fixture(autouse=True)
def _in_a_moment(monkeypatch, recwarn):
    """AutoGraph says that it cannot read functions made by functions; that is no concern of this test."""
    monkeypatch.setattr(measure, "_SPEED_SECONDS", 0.01)


@settings(max_examples=TRIED)
@given(recipe=recipes(), keeps=st.sampled_from(Keeps))
def test_everything_is_measured_or_refused_with_a_reason(recipe: Recipe, keeps):
    try:
        written = recipe()
        next(iter(written), None)
    except (ValueError, TypeError, tf.errors.OpError):
        assume(False)
    try:
        planned = plan(extract(written), catalogue(), keeps=keeps, measurements=AsksAll())
    except DatasetError:
        assert not any(True for _ in passing(written))
        assume(False)
    if planned.steps:
        verify(planned, limit=LIMIT)
    assert all(refusal.reason for refusal in planned.refusals)


def passing(dataset):
    """Yield the first elements that do not fail."""
    iterator = iter(dataset)
    for _ in range(LIMIT):
        try:
            yield next(iterator)
        except StopIteration:
            return
        except tf.errors.OpError:
            pass
