"""What TensorFlow knows of a pipeline without running it: the type of its elements, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf

from autopipe.pipeline import ir
from autopipe.pipeline.builders import build_stage

__all__ = ["Signature", "known_bytes", "signature"]

# Datasets that are made only for their types, and never read: making a stage takes a millisecond.
_UNREAD: WeakKeyDictionary[ir.Node, Any] = WeakKeyDictionary()


@dataclass(frozen=True)
class Signature:
    """The type and the number of elements.

    Attributes:
        element_spec: the structure of one element.
        cardinality: how many there are, or TensorFlow's constant for an unknown or infinite number.
    """

    element_spec: Any
    cardinality: int

    @property
    def is_infinite(self) -> bool:
        """Whether elements never end.

        >>> import tensorflow as tf
        >>> numbers = tf.TensorSpec((), tf.int64)
        >>> counts = (5, tf.data.UNKNOWN_CARDINALITY, tf.data.INFINITE_CARDINALITY)
        >>> [(each.is_infinite, each.is_counted) for each in (Signature(numbers, count) for count in counts)]
        [(False, True), (False, False), (True, False)]
        """
        return bool(self.cardinality == tf.data.INFINITE_CARDINALITY)

    @property
    def is_counted(self) -> bool:
        """Whether the number of elements is known and finite."""
        return self.cardinality >= 0

    @property
    def is_unknown(self) -> bool:
        """Whether the number of elements is unknown; they may never end."""
        return not (self.is_counted or self.is_infinite)

    @property
    def flat_specs(self) -> list[Any]:
        """The types of the tensors of an element, side by side."""
        return list(tf.nest.flatten(self.element_spec))

    @property
    def element_bytes(self) -> int | None:
        """The bytes of every element; ``None`` if they differ, or the type does not tell.

        >>> import tensorflow as tf
        >>> Signature((tf.TensorSpec((2, 3), tf.float32), tf.TensorSpec((), tf.int64)), 5).element_bytes
        32
        >>> Signature(tf.TensorSpec((), tf.string), 5).element_bytes is None
        True
        """
        total = 0
        for part in self.flat_specs:
            dense = isinstance(part, tf.TensorSpec) and part.shape.is_fully_defined()
            if not dense or part.dtype in (tf.string, tf.variant, tf.resource):
                return None
            total += int(part.shape.num_elements()) * int(part.dtype.size)
        return total

    @property
    def has_one_shape(self) -> bool:
        """Whether all elements are dense tensors of the same shapes.

        >>> import tensorflow as tf
        >>> [Signature(tf.TensorSpec(shape, tf.string), 5).has_one_shape for shape in [(2,), (None,)]]
        [True, False]
        """
        parts = self.flat_specs
        return all(isinstance(part, tf.TensorSpec) and part.shape.is_fully_defined() for part in parts)

    def refines(self, other: Signature) -> bool:
        """Return whether this is the other one, or knows what was unknown in it."""
        # TensorFlow takes a repeat of an unknown number of elements for endless; a repeat of no elements has none.
        known_to_be_none = self.cardinality == 0 and other.is_infinite
        if other.cardinality not in {self.cardinality, tf.data.UNKNOWN_CARDINALITY} and not known_to_be_none:
            return False
        if self.element_spec == other.element_spec:
            return True
        try:
            tf.nest.assert_same_structure(self.element_spec, other.element_spec)
        except (ValueError, TypeError):
            return False
        pairs = zip(self.flat_specs, other.flat_specs, strict=True)
        return all(ours == theirs or ours.is_subtype_of(theirs) for ours, theirs in pairs)


def signature(node: ir.Node) -> Signature:
    """Return the type and the number of the elements of a pipeline.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> signature(extract(tf.data.Dataset.range(5).batch(2)))
    Signature(element_spec=TensorSpec(shape=(None,), dtype=tf.int64, name=None), cardinality=3)
    """
    dataset = _unread(node)
    return Signature(dataset.element_spec, int(dataset.cardinality()))


def known_bytes(node: ir.Node) -> int | None:
    """Return the bytes of one element, for a batch those of a full one; ``None`` if the type does not tell.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> known_bytes(extract(tf.data.Dataset.range(5).batch(2)))
    16
    """
    known = signature(node).element_bytes
    if known is None and isinstance(node, ir.Batch):
        each = known_bytes(node.input)
        return None if each is None else each * node.batch_size
    return known


def _unread(node: ir.Node) -> Any:
    # Looked up only once: an equal node of another thread may be gone meanwhile.
    known = _UNREAD.get(node)
    if known is None:
        known = _UNREAD[node] = build_stage(node, *map(_unread, node.inputs))
    return known
