from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopipe.telemetry import Span
from autopipe.telemetry.span_history import SpanHistory


def history_of(*spans: Span, most: int) -> SpanHistory:
    history = SpanHistory(most)
    history.add(spans)
    return history


def seconds(until: int, *, gpus: int = 1) -> list[Span]:
    """Return a span for each second and GPU, of which each GPU is twice as busy as the one before."""
    return [Span(begin, begin + 1, 0.1 * 2**gpu) for begin in range(until) for gpu in range(gpus)]


def busy(spans: list[Span]) -> float:
    return sum(span.utilization * span.seconds * span.devices for span in spans)


@pytest.mark.parametrize("gpus", [1, 2, 3])
def test_nothing_is_lost_by_merging_however_many_gpus_there_are(gpus: int) -> None:
    spans = seconds(20_000, gpus=gpus)
    kept = history_of(*spans, most=2048).since(-1.0)
    assert len(kept) <= 2048
    assert busy(kept) == pytest.approx(busy(spans))
    assert sum(span.seconds * span.devices for span in kept) == pytest.approx(len(spans))


def test_what_is_long_ago_is_known_the_more_coarsely_and_the_latest_half_as_it_came() -> None:
    kept = history_of(*seconds(50_000), most=2048).since(-1.0)
    assert all(span.seconds == 1 for span in kept[:1024])
    assert all(span.seconds <= max((50_000 - span.ended) / 64, 1) for span in kept)
    assert all(later.began == earlier.ended for later, earlier in pairwise(kept))


@given(most=st.integers(1, 9), count=st.integers(0, 40))
def test_memory_is_bounded_and_the_latest_is_there(most: int, count: int) -> None:
    spans = seconds(count)
    history = history_of(*spans, most=most)
    assert len(history.since(-1.0)) <= most
    assert history.latest == (spans[-1] if spans else None)


def test_only_what_ended_later_is_told() -> None:
    assert history_of(*seconds(5), most=9).since(3.0) == [Span(4, 5, 0.1), Span(3, 4, 0.1)]
