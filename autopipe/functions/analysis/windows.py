"""What the function of a ``flat_map`` over windows makes of them, read from its graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autopipe.functions.analysis.effects import effects
from autopipe.functions.function import Function
from autopipe.functions.subgraph import constant, origin

__all__ = ["BatchedWindow", "batched_windows"]

_BATCHES = ("BatchDatasetV2", "ParallelBatchDataset")


@dataclass(frozen=True)
class BatchedWindow:
    """One component of an element: all of a window in one batch.

    Attributes:
        component: which of the windows the function takes.
        size: elements of a batch.
        whole: whether a smaller batch is left out.
    """

    component: int
    size: int
    whole: bool


def batched_windows(fn: Function) -> tuple[BatchedWindow, ...] | None:
    """Return the flat components of the result of ``fn`` if it only batches windows.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> windows = tf.data.Dataset.range(9).window(3, drop_remainder=True)
    >>> batched_windows(extract(windows.flat_map(lambda window: window.batch(3))).fn)
    (BatchedWindow(component=0, size=3, whole=False),)
    >>> batched_windows(extract(windows.flat_map(lambda window: window.skip(1))).fn) is None
    True
    """
    outputs = fn.concrete.outputs
    if len(outputs) != 1 or not effects(fn).pure:
        return None
    last = origin(outputs[0])
    parts = list(last.op.inputs) if last.op.type == "ZipDataset" else [last]
    found = [_batched(fn, part) for part in parts]
    return None if None in found else tuple(each for each in found if each is not None)


def _batched(fn: Function, dataset: Any) -> BatchedWindow | None:
    op = origin(dataset).op
    if op.type not in _BATCHES or op.get_attr("metadata"):
        return None
    window, size, *_, whole = op.inputs
    places = [place for place, taken in enumerate(fn.element_inputs) if taken is origin(window)]
    size, whole = constant(size), constant(whole)
    if not places or size is None or whole is None or len(op.get_attr("output_types")) != 1:
        return None
    return BatchedWindow(places[0], int(size), bool(whole))
