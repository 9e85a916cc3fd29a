"""The report of a search on each challenger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Trial", "Values"]

Values: TypeAlias = Mapping[str, int]
"""The values of knobs, by their names."""


@dataclass(frozen=True)
class Trial:
    """One challenger, measured.

    Attributes:
        number: counts from 1.
        knobs: its values.
        gain: its objective as a ratio to its neighbours', less one; the median if it had several matches.
        noise: how much those neighbours differed, as a ratio; for several matches, the mean divided by the root of
            their number.
        kept: whether it became the incumbent.
        seconds: time spent in its windows, without those of its neighbours.
        leaner: whether it was tried to save resources, not time.
        failure: why it was given up before its end; empty if it was not.
        structure: the name of its structure; empty if only numbers are searched.
    """

    number: int
    knobs: Values
    gain: float
    noise: float
    kept: bool
    seconds: float
    leaner: bool = False
    failure: str = ""
    structure: str = ""
