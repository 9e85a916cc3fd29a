"""How many elements an epoch gives: it is read, which fills the caches, unless it may be endless."""

from __future__ import annotations

import math
import time
from typing import Any

import tensorflow as tf

from autopipe.pipeline import ir
from autopipe.planning.measuring.count import most_elements
from autopipe.rules import MeasurementError

__all__ = ["elements_of_epoch", "elements_within"]

# An epoch that takes longer than this, and is not known to end, counts as endless.
_LONGEST_SECONDS = 300.0


def elements_of_epoch(dataset: Any, tree: ir.Node) -> int | None:
    """Read a dataset to its end and return how many elements it gave; ``None`` if it seems to have no end.

    Args:
        dataset: a ``tf.data.Dataset``.
        tree: its pipeline.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> odd = tf.data.Dataset.range(9).filter(lambda x: x % 2 == 1)
    >>> [elements_of_epoch(each, extract(each)) for each in (odd, odd.repeat())]
    [4, None]
    """
    if int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY:
        return None
    return elements_within(dataset, math.inf if _surely_ends(tree) else _LONGEST_SECONDS)


def elements_within(dataset: Any, seconds: float) -> int | None:
    """Read a dataset to its end and return how many elements it gave; ``None`` if that takes longer.

    >>> import tensorflow as tf
    >>> elements_within(tf.data.Dataset.range(3), 60.0), elements_within(tf.data.Dataset.range(3).repeat(), 0.01)
    (3, None)
    """
    end = time.perf_counter() + seconds
    count = 0
    for _ in dataset:
        count += 1
        if time.perf_counter() > end:
            return None
    return count


def _surely_ends(tree: ir.Node) -> bool:
    try:
        return most_elements(tree) >= 0
    except MeasurementError:
        return False
