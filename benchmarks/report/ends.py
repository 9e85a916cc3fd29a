"""The table of how long is waited for the end of an iterator."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.ends import EndsResult

__all__ = ["ends_lines"]

_LONG_SECONDS = 0.2


def ends_lines(results: Sequence[EndsResult]) -> list[str]:
    """Return a table with a row for each way to end, and each time of reading before."""
    if not results:
        return []
    lines = [
        "## What the end of an iterator takes",
        "",
        "Seconds for which whoever ends an iterator is held up. The thread of TensorFlow's AUTOTUNE may miss that it "
        "is to stop, and is waited for then.",
        "",
        f"| read before, s | | median | longest | above {_LONG_SECONDS:g} s |",
        "|---:|---|---:|---:|---:|",
    ]
    for each in results:
        for name, waits in each.waits.items():
            long = sum(wait > _LONG_SECONDS for wait in waits)
            lines.append(
                f"| {each.read_seconds:g} | {name} | {statistics.median(waits):.3f} | {max(waits):.3f} "
                f"| {long} of {len(waits)} |"
            )
    return [*lines, ""]
