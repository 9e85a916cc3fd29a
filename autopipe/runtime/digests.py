"""What a few epochs of a pipeline yield, in a form that can be compared with another pipeline's.

Elements are not kept, only what identifies them: a digest of the bits of each element, for a comparison in order. A row
(of a batch, so that batch boundaries do not count; else an element) is identified by a digest of what must be equal
(whole numbers, texts, shapes, which floats are NaN or infinite) and by sums of its floats with random weights, since
floats, also those of complex numbers, may round differently.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from autopipe.pipeline.arrays import as_array
from autopipe.runtime.disposal import dispose_aside

__all__ = ["EpochDigest", "Row", "read_epochs"]

_BLOCK = 64
_MOST_BLOCKS = 256
_MOST_SUMMED = 1e290
_NOISE = 1e-6


@dataclass(frozen=True)
class Row:
    """One row: the digest of what must be equal, and weighted sums of its floats with the sums of their sizes."""

    exact: bytes
    sums: Any
    sizes: Any

    def like(self, other: Row, tolerance: float) -> bool:
        """Return whether both are equal up to rounding, and the noise left where large numbers cancel out."""
        if self.exact != other.exact or self.sums.shape != other.sums.shape:
            return False
        return bool(np.all(np.abs(self.sums - other.sums) <= tolerance * np.maximum(self.sizes, other.sizes) + _NOISE))


@dataclass(frozen=True)
class EpochDigest:
    """What was read in one epoch.

    Attributes:
        elements: the digest of each element, in order.
        rows: what identifies each row, in order.
        forms: the types and numbers of dimensions of each row.
        means: the mean of each numeric leaf, for each row.
        complete: whether the epoch came to its end.
        error: what ended it, if an element failed.
    """

    elements: tuple[bytes, ...]
    rows: tuple[Row, ...]
    forms: tuple[Any, ...]
    means: tuple[tuple[float, ...], ...]
    complete: bool
    error: str | None = None


def read_epochs(dataset: Any, epochs: int, limit: int, seconds: float, *, batched: bool) -> list[EpochDigest]:
    """Read a dataset.

    Args:
        dataset: a ``tf.data.Dataset``.
        epochs: how often it is read.
        limit: elements read in each epoch, at the most.
        seconds: time for all epochs together; the epoch under way is then broken off.
        batched: whether the rows of an element are examples of their own.
    """
    end = time.perf_counter() + seconds
    try:
        return [_read(dataset, limit, end, batched) for _ in range(epochs)]
    finally:
        # The weights take twice the memory of their rows.
        _weights.cache_clear()


def _read(dataset: Any, limit: int, end: float, batched: bool) -> EpochDigest:
    elements: list[bytes] = []
    rows: list[Row] = []
    forms: list[Any] = []
    means: list[tuple[float, ...]] = []
    complete, error = False, None
    try:
        iterator = iter(dataset)
    except tf.errors.OpError as failed:
        return EpochDigest((), (), (), (), complete, failed.message)
    while len(elements) < limit and (not elements or time.perf_counter() < end):
        try:
            element = next(iterator)
        except StopIteration:
            complete = True
            break
        except tf.errors.OpError as failed:
            error = failed.message or type(failed).__name__
            break
        leaves = _leaves(element)
        elements.append(_digest(leaves))
        for row in _rows(leaves) if batched else (leaves,):
            rows.append(_known_by(row))
            forms.append(tuple((leaf.dtype.str, leaf.ndim) for leaf in row))
            means.append(tuple(float(leaf.mean()) for leaf in row if leaf.size and leaf.dtype.kind in "biuf"))
    if complete:
        # Nothing of it runs any more.
        dispose_aside(iterator)
    return EpochDigest(tuple(elements), tuple(rows), tuple(forms), tuple(means), complete, error)


def _leaves(element: Any) -> list[Any]:
    parts = tf.nest.flatten(element, expand_composites=True)
    return [_array(part.numpy()) for part in parts if part is not None]


def _rows(leaves: list[Any]) -> Iterator[list[Any]]:
    """Yield the rows of a batch; an element that is not a batch is yielded whole."""
    sizes = {leaf.shape[0] if leaf.ndim else -1 for leaf in leaves}
    if len(sizes) == 1 and -1 not in sizes:
        yield from ([_array(leaf[row]) for leaf in leaves] for row in range(sizes.pop()))
    else:
        yield leaves


def _known_by(leaves: list[Any]) -> Row:
    floats = [_flat(leaf) for leaf in leaves if leaf.dtype.kind in "fc"]
    others = [leaf for leaf in leaves if leaf.dtype.kind not in "fc"]
    blocks = [_weighted(np.where(_is_summed(flat), flat, 0)) for flat in floats]
    apart = [_kind_of_number(flat) for flat in floats if not _is_summed(flat).all()]
    exact = _digest([*others, *apart]) + repr([(leaf.dtype.str, leaf.shape) for leaf in leaves]).encode()
    if not blocks:
        return Row(exact, np.zeros(0), np.zeros(0))
    return Row(exact, *(np.concatenate(each) for each in zip(*blocks, strict=True)))


def _flat(leaf: Any) -> Any:
    """Return the numbers of a leaf; a complex one is two floats."""
    flat = np.ascontiguousarray(leaf).ravel()
    return flat.view(flat.real.dtype).astype(np.float64)


def _is_summed(flat: Any) -> Any:
    """Return where floats can be summed: they are numbers, and not so large that a sum would overflow."""
    return np.abs(flat) < _MOST_SUMMED


def _kind_of_number(flat: Any) -> Any:
    """Return for each float whether it is NaN, or too large to be summed, with its sign."""
    return np.where(np.isnan(flat), 2, np.where(_is_summed(flat), 0, np.sign(flat))).astype(np.int8)


def _weighted(flat: Any) -> tuple[Any, Any]:
    """Return sums of blocks of floats with fixed random weights, and the sums of their absolute values."""
    if not flat.size:
        return np.zeros(0), np.zeros(0)
    weights, starts = _weights(flat.size)
    weighted = flat * weights
    return np.add.reduceat(weighted, starts), np.add.reduceat(np.abs(weighted), starts)


@lru_cache(maxsize=8)
def _weights(size: int) -> tuple[Any, Any]:
    """Return random weights for this many numbers, and where their blocks start; rows often have the same size."""
    blocks = min(-(-size // _BLOCK), _MOST_BLOCKS)
    starts = np.linspace(0, size, blocks, endpoint=False, dtype=np.int64)
    return np.random.default_rng(size).uniform(0.5, 1.5, size), starts


def _digest(leaves: list[Any]) -> bytes:
    digest = hashlib.sha256()
    for leaf in leaves:
        content = repr(leaf.tolist()).encode() if leaf.dtype == object else leaf.tobytes()
        digest.update(f"{leaf.dtype.str}{leaf.shape}".encode() + content)
    return digest.digest()


def _array(leaf: Any) -> Any:
    """Return a leaf as an array; strings as objects, since their lengths are values and not a type."""
    array = as_array(leaf)
    return array.astype(np.float32) if array.dtype.kind == "V" else array
