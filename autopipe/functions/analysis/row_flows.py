"""How a tensor relates to the rows of a batch.

A tensor that has the rows of a batch along its first axis still has them after an op that looks at one row at a time.
If an op splits rows, as sentences into words, the pieces of all rows come one after the other, and another tensor
assigns them to rows.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, NamedTuple

__all__ = ["ALIKE", "COUNT", "NUMBER", "ROWS", "SHAPE", "Flow", "Kind"]


class Kind(Enum):
    """What a tensor is to the rows of a batch."""

    ALIKE = auto()
    """The same for every batch."""
    NUMBER = auto()
    """The number of rows."""
    SHAPE = auto()
    """A shape: the number of rows, then sizes that are the same for every batch."""
    COUNT = auto()
    """The same for every batch with the same number of rows."""
    ROWS = auto()
    """Along its first axis, something of each row."""
    PIECES = auto()
    """Along its first axis, any number of pieces of each row, one row after the other."""
    OWNERS = auto()
    """The row of each piece."""
    PLACES = auto()
    """The row of each piece, and its position in that row."""
    SIZES = auto()
    """The number of rows, and the most pieces of one."""
    LENGTHS = auto()
    """How many pieces each row has."""
    ENDS = auto()
    """How many pieces each row has together with those before it."""
    SPLITS = auto()
    """0, followed by the number of pieces of each row together with those before it."""


class Flow(NamedTuple):
    """The kind of a tensor, and the op that split the rows if it is about their pieces."""

    kind: Kind
    of: Any = None


ALIKE, ROWS = Flow(Kind.ALIKE), Flow(Kind.ROWS)
NUMBER, SHAPE, COUNT = map(Flow, (Kind.NUMBER, Kind.SHAPE, Kind.COUNT))
