"""The history of spans, coarser the older it is."""

from collections.abc import Iterable
from itertools import takewhile

from autopipe.telemetry._base import Span

__all__ = ["SpanHistory"]

# An old span is at most as long as this share of the time since it ended: so a mean since any moment is off by no more
# than this share at its beginning.
_COARSE = 1 / 64
# At most this share of the older half is left after merging: otherwise it would make too little room for its cost.
_LEFT = 3 / 4


class SpanHistory:
    """Spans of all time in the order in which they ended, in bounded memory.

    Once there are ``most``, the older half of them is merged: each with its neighbours, as long as the result is short
    compared to the time since then. If that still leaves too many, the oldest are forgotten.

    Args:
        most: the largest number of spans.

    >>> history = SpanHistory(most=2048)
    >>> history.add(Span(second, second + 1, 0.5) for second in range(90_000))
    >>> kept = history.since(0)
    >>> len(kept) < 2048, kept[-1].began, sum(span.seconds for span in kept)
    (True, 0, 90000)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._spans: list[Span] = []

    def add(self, spans: Iterable[Span]) -> None:
        """Add new spans, the latest last."""
        for span in spans:
            if len(self._spans) >= self._most:
                self._make_room()
            self._spans.append(span)

    @property
    def latest(self) -> Span | None:
        """The last one; ``None`` if there is none."""
        return self._spans[-1] if self._spans else None

    def since(self, moment: float) -> list[Span]:
        """Return the spans that ended after a moment, the latest first."""
        return list(takewhile(lambda span: span.ended > moment, reversed(self._spans)))

    def _make_room(self) -> None:
        now = self._spans[-1].ended
        half = (self._most + 1) // 2
        merged = self._spans[:1]
        for span in self._spans[1:half]:
            together = merged[-1].with_(span)
            if together.seconds <= (now - together.ended) * _COARSE:
                merged[-1] = together
            else:
                merged.append(span)
        self._spans[:half] = merged[max(len(merged) - int(_LEFT * half), 0) :]
