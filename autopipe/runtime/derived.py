"""Datasets that a user, or Keras for ``class_weight``, derives from an optimized dataset.

A private attribute of TensorFlow is read and written here, ``Dataset._variant_tensor``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, Protocol

import tensorflow as tf

from autopipe.pipeline import ir, trees
from autopipe.pipeline.builders import build_stage
from autopipe.pipeline.extract import extract
from autopipe.pipeline.signature import signature
from autopipe.runtime.caches.small_takes import LookingDataset
from autopipe.runtime.readings import Stages, tree_after

__all__ = ["Followable", "FollowingDataset", "built_after"]

# If the number of elements is unknown, a take of up to this many takes few; elements are mostly batches.
_FEW = 32

to_variant = tf.data.experimental.to_variant

# Stages that read their input to the end. A take does not: see LookingDataset.
_FOLLOWING = ir.Batch | ir.Filter | ir.Map | ir.Options | ir.PaddedBatch | ir.Prefetch | ir.Repeat | ir.Skip


class Followed(Protocol):
    """What datasets derived from an optimized dataset need of it."""

    @property
    def original(self) -> Any:
        """The dataset as it was written."""
        ...

    @property
    def tree(self) -> ir.Node:
        """The pipeline as it runs now."""
        ...

    @property
    def must_end(self) -> bool:
        """Whether its caches serve no other iterator until one reaches its end."""
        ...

    def iterator(self, after: Stages = ()) -> Any:
        """Return an iterator over it with stages after it."""
        ...

    def waits_for_caches(self) -> bool:
        """Whether the first element of a derived dataset waits for many elements that caches will hold."""
        ...

    @property
    def begins_with_all(self) -> bool:
        """Whether the first element of a derived dataset fills its caches."""
        ...

    def look(self, after: Stages = ()) -> Any:
        """Return an iterator over it with stages after it that fills no cache and is hidden from observers."""
        ...


def built_after(dataset: Any, stages: Stages) -> Any:
    """Return a dataset with stages after it; their functions are not traced again."""
    return reduce(lambda made, stage: build_stage(stage, made), stages, dataset)


def _staying_live(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of any dataset whose result stays live, if it is one that autopipe can read."""

    def derive(self: Followable, *given: Any, **named: Any) -> Any:
        derived = method(self, *given, **named)
        if derived is self:
            # prefetch() returns its dataset in TensorFlow's debug mode.
            return self
        optimized, stages = self._following
        stage = _stage_after(optimized, derived)
        return derived if stage is None else FollowingDataset(optimized, (*stages, stage), derived)

    derive.__name__ = method.__name__
    derive.__doc__ = f"Do as any dataset; what :meth:`tf.data.Dataset.{method.__name__}` returns stays live."
    derive.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return derive


def _stage_after(optimized: Followed, derived: Any) -> ir.Unary | None:
    """Return the last stage of a dataset, if it may follow; ``None`` inside a traced function, too."""
    stage = extract(derived) if tf.executing_eagerly() else None
    if not isinstance(stage, _FOLLOWING):
        return None
    is_infinite = isinstance(stage, ir.Repeat) and stage.is_infinite
    return None if is_infinite and optimized.must_end else stage


def _takes_few(taken: ir.Take) -> bool:
    """Return whether a take is too small for a cache of all elements to help it, such as a look beside training."""
    number = signature(taken.input).cardinality
    return 0 <= taken.count <= (number / 2 if number >= 0 else _FEW)


def _looks(taken: ir.Take) -> float:
    """Return how many passes take as many elements as there are; from then on, filling caches pays off.

    It is infinite if the number of elements is unknown: filling caches might never end.
    """
    number = signature(trees.past(taken.input, ir.Repeat)).cardinality
    return math.inf if number < 0 else math.ceil(number / max(taken.count, 1))


class Followable(tf.data.Dataset):
    """A dataset that stays live with more stages after it."""

    @property
    def _following(self) -> tuple[Followed, Stages]:
        """The optimized dataset it is, or follows, and the stages between."""
        raise NotImplementedError

    batch = _staying_live(tf.data.Dataset.batch)
    filter = _staying_live(tf.data.Dataset.filter)
    map = _staying_live(tf.data.Dataset.map)
    padded_batch = _staying_live(tf.data.Dataset.padded_batch)
    prefetch = _staying_live(tf.data.Dataset.prefetch)
    repeat = _staying_live(tf.data.Dataset.repeat)
    skip = _staying_live(tf.data.Dataset.skip)
    with_options = _staying_live(tf.data.Dataset.with_options)

    def take(self, count: Any, name: str | None = None) -> Any:
        """Do as any dataset; the result is not live, and if it takes few, does not wait until caches are full."""
        derive = partial(super().take, count, name)
        optimized, stages = self._following
        derived = derive()
        taken = extract(derived) if tf.executing_eagerly() else None
        if not isinstance(taken, ir.Take) or not _takes_few(taken):
            return derived
        after = (*stages, taken)
        if not optimized.waits_for_caches():
            return derived
        # Otherwise so few elements never fill the caches, however often they are read.
        passes = _looks(taken) if optimized.begins_with_all else math.inf
        return LookingDataset(derive, lambda: optimized.look(after) if optimized.waits_for_caches() else None, passes)


class FollowingDataset(Followable):
    """An optimized dataset with stages after it, such as a batch, a repeat or a map.

    Its iterators are those of the optimized dataset: callbacks see them, and ``retune()`` changes them. Its
    ``original`` is that of the optimized dataset with the same stages after it.

    Attributes:
        optimized: the optimized dataset, which has ``explain()``, ``plan``, ``knobs`` and ``retune()``.

    >>> import autopipe
    >>> optimized = autopipe.optimize(tf.data.Dataset.range(4).map(lambda x: x * 10), seconds=0)
    >>> iterator = iter(optimized.map(lambda x: x + 1))
    >>> first = next(iterator)
    >>> optimized.retune({"prefetch.buffer_size": 3})
    >>> [int(x) for x in iterator]
    [11, 21, 31]
    >>> [int(x) for x in optimized.map(lambda x: x + 1).original]
    [1, 11, 21, 31]
    """

    def __init__(self, optimized: Followed, stages: Stages, derived: Any) -> None:
        self.optimized = optimized
        self._stages = stages
        self._derived = derived
        self._derived_from = to_variant(optimized)
        super().__init__(to_variant(derived))

    @property
    def _variant_tensor(self) -> Any:
        """Derived datasets read the caches that are full by now, as those of the optimized dataset do."""
        if tf.compat.v1.executing_eagerly_outside_functions():
            with tf.init_scope():
                source = to_variant(self.optimized)
                if source is not self._derived_from:
                    self._derived_from, self._derived = source, built_after(self.optimized, self._stages)
                    self._variant_tensor_attr = to_variant(self._derived)
        return self._variant_tensor_attr

    def _inputs(self) -> list[Any]:
        return [self._derived]

    @property
    def _following(self) -> tuple[Followed, Stages]:
        return self.optimized, self._stages

    @property
    def element_spec(self) -> Any:
        """The structure of one element."""
        return self._derived.element_spec

    @property
    def original(self) -> Any:
        """The dataset as it would be without autopipe."""
        written = self.optimized.original
        original = built_after(written, self._stages)
        original._autopipe_tree = tree_after(extract(written), self._stages)
        return original

    @property
    def _autopipe_tree(self) -> ir.Node:
        return tree_after(self.optimized.tree, self._stages)

    def __iter__(self) -> Any:
        return self.optimized.iterator(self._stages) if tf.executing_eagerly() else super().__iter__()
