"""Runs two pipelines and compares what was promised."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from autopipe.rules import Keeps

__all__ = ["compare"]


def compare(before: Any, after: Any, keeps: Keeps, *, epochs: int = 2, limit: int = 10_000) -> str | None:
    """Run two datasets and return the first difference that the promise does not allow.

    ``sequence`` compares values bit for bit and in order, each epoch. ``elements`` compares the multiset of each
    epoch, floats after rounding to four digits; elements are rows of a batch, so that a batch boundary does not
    count. ``training`` compares the number of rows and their shapes: epochs may mix where the original mixed
    them, and random draws differ.

    Args:
        before: a ``tf.data.Dataset``.
        after: another.
        keeps: what was promised.
        epochs: how often both are run.
        limit: elements read of each per epoch, at the most.

    Returns:
        ``None`` if the promise is kept, else a sentence.

    >>> import tensorflow as tf
    >>> three = tf.data.Dataset.range(3)
    >>> compare(three, three.shuffle(3, seed=1), Keeps.ELEMENTS) is None
    True
    >>> compare(three, three.skip(1), Keeps.ELEMENTS)
    'epoch 0: 1 elements are lost and 0 are new'
    """
    for epoch in range(epochs):
        pairs = list(islice(before, limit)), list(islice(after, limit))
        difference = _COMPARISONS[keeps](*pairs)
        if difference:
            return f"epoch {epoch}: {difference}"
    return None


def _same_sequence(before: list[Any], after: list[Any]) -> str | None:
    if len(before) != len(after):
        return f"{len(before)} elements became {len(after)}"
    for position, (old, new) in enumerate(zip(before, after, strict=True)):
        if _digest(old) != _digest(new):
            return f"element {position} differs"
    return None


def _same_elements(before: list[Any], after: list[Any]) -> str | None:
    old, new = (Counter(_digest(row, digits=4) for row in _rows(side)) for side in (before, after))
    lost, fresh = (old - new).total(), (new - old).total()
    return f"{lost} elements are lost and {fresh} are new" if lost or fresh else None


def _same_form(before: list[Any], after: list[Any]) -> str | None:
    old, new = (Counter(_form(row) for row in _rows(side)) for side in (before, after))
    return None if old == new else f"{old.total()} elements became {new.total()}, or their types changed"


_COMPARISONS = {
    Keeps.SEQUENCE: _same_sequence,
    Keeps.ELEMENTS: _same_elements,
    Keeps.TRAINING: _same_form,
}


def _leaves(element: Any) -> list[Any]:
    import tensorflow as tf

    return [_array(tensor.numpy()) for tensor in tf.nest.flatten(element, expand_composites=True)]


def _rows(elements: list[Any]) -> Iterator[list[Any]]:
    """Yield the rows of batched elements, and elements that are no batch as they are."""
    for element in elements:
        leaves = _leaves(element)
        sizes = {leaf.shape[0] if leaf.ndim else -1 for leaf in leaves}
        if len(sizes) == 1 and -1 not in sizes:
            yield from ([leaf[row] for leaf in leaves] for row in range(sizes.pop()))
        else:
            yield leaves


def _digest(element: Any, digits: int | None = None) -> bytes:
    import numpy as np

    leaves = element if isinstance(element, list) else _leaves(element)
    digest = hashlib.sha256()
    for leaf in map(_array, leaves):
        rounded = np.round(leaf, digits) + 0.0 if digits and np.issubdtype(leaf.dtype, np.inexact) else leaf
        content = repr(rounded.tolist()).encode() if rounded.dtype == object else rounded.tobytes()
        digest.update(f"{rounded.dtype}{rounded.shape}".encode() + content)
    return digest.digest()


def _form(leaves: list[Any]) -> tuple[Any, ...]:
    return tuple((str(leaf.dtype), leaf.shape) for leaf in map(_array, leaves))


def _array(leaf: Any) -> Any:
    """Return a leaf as an array; strings as objects, since their lengths are values and not a type."""
    import numpy as np

    return np.asarray(leaf, dtype=object if isinstance(leaf, bytes) else None)
