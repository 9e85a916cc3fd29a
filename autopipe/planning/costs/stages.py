"""What TensorFlow counted in each stage of a running pipeline, assigned to the stages that the user wrote.

``tf.data.experimental.get_model_proto`` describes the pipeline after TensorFlow's own rewrites: a map and a batch may
be one node there, a prefetch may have been added, and names are lost. So the two trees are walked together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import UnionType
from typing import Any

import tensorflow as tf

from autopipe.pipeline import ir

__all__ = ["Counters", "counters_in", "model_of"]

_VARIANTS = re.compile(r"^(Legacy|Parallel|Finite|Forever|Empty)+|V\d+$")
# Nodes of TensorFlow that fuse two stages: the later stage, then the one before it.
_FUSED: dict[str, tuple[type[ir.Node], type[ir.Node] | UnionType]] = {
    "MapAndBatch": (ir.Batch, ir.Mapping),
    "ShuffleAndRepeat": (ir.Repeat, ir.Shuffle),
}
_NAMES: dict[type[ir.Node], frozenset[str]] = {
    ir.Cache: frozenset({"MemoryCache", "FileCache", "Cache"}),
    ir.ChooseFrom: frozenset({"DirectedInterleave"}),
    ir.Enumerate: frozenset({"Zip"}),
    ir.Generator: frozenset({"FlatMap"}),
    ir.LegacyInterleave: frozenset({"Interleave"}),
    ir.FilesReader: frozenset({"CSV", "TextLine", "TFRecord", "FixedLengthRecord", "FlatMap", "Interleave"}),
    ir.MemoizedMap: frozenset({"Map"}),
    ir.Saved: frozenset({"Load"}),
    ir.TensorSlices: frozenset({"TensorSlice"}),
    ir.Tensors: frozenset({"Tensor", "FromTensor"}),
}
# Stages whose elements come from datasets that a function makes for the elements of the first input.
_OF_MANY = ir.Flattening | ir.GroupByWindow | ir.FilesReader
# Nodes that TensorFlow adds by itself.
_ADDED = frozenset({"Root", "Prefetch"})
_ONLY_OPTIONS = ir.Options | ir.ThreadPool | ir.End
# The node in which TensorFlow measures how long each element takes to come.
_METER = "LatencyStats"
# TensorFlow states a wrong ratio of input to output elements for these; the counted ratio is exact.
_COUNTED = frozenset({"Concatenate", "DirectedInterleave", "IgnoreErrors", "Shard"})


@dataclass(frozen=True)
class Counters:
    """What one stage has done since its iterator was made.

    Attributes:
        elements: how many elements it gave.
        needed: how many of them make one element of the whole pipeline, such as 32 before a ``batch(32)``.
        seconds: time spent in it, not in earlier stages, added up over all threads. Waiting for storage and for
            Python's GIL counts, waiting for earlier stages does not.
        bytes_out: bytes of the elements it gave.
        bytes_in: bytes of the elements it took.
        buffered_bytes: bytes it holds now.
        parallelism: calls that may run at once; ``None`` for a stage that makes one element after the other.
        ahead: whether it works ahead of its consumer, in its own threads.
        fused_with: the stage that TensorFlow fused with it, whose work is counted here.
    """

    elements: int
    needed: float
    seconds: float
    bytes_out: int
    bytes_in: int
    buffered_bytes: int
    parallelism: int | None = None
    ahead: bool = False
    fused_with: ir.Node | None = None

    def plus(self, other: Counters) -> Counters:
        """Return the sum over two successive epochs; what is held now is taken from the other."""
        return replace(
            other,
            elements=self.elements + other.elements,
            seconds=self.seconds + other.seconds,
            bytes_out=self.bytes_out + other.bytes_out,
            bytes_in=self.bytes_in + other.bytes_in,
        )

    def beside(self, other: Counters) -> Counters:
        """Return the sum over one stage at two places of a pipeline."""
        return replace(
            self.plus(other),
            needed=self.needed + other.needed,
            buffered_bytes=self.buffered_bytes + other.buffered_bytes,
        )


def model_of(iterator: Any) -> Any:
    """Return TensorFlow's model of a live iterator, for :func:`counters_in`, which takes ten times as long.

    Args:
        iterator: an iterator with autotuning on.

    Raises:
        tf.errors.NotFoundError: if autotuning is off, or the state of another iterator was restored into this one.
    """
    return tf.data.experimental.get_model_proto(iterator)


def counters_in(model: Any, tree: ir.Node, *, metered: bool = False) -> dict[ir.Node, Counters]:
    """Return what each stage had done when the model was taken. Stages that TensorFlow dropped are left out.

    Args:
        model: what :func:`model_of` gave.
        tree: the pipeline that the iterator reads.
        metered: whether the iterator reads it through :func:`autopipe.telemetry.stall.metered`.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> dataset = tf.data.Dataset.range(9).batch(2)
    >>> iterator = iter(dataset)
    >>> first = next(iterator)
    >>> [count.elements >= 1 for count in counters_in(model_of(iterator), extract(dataset)).values()]
    [True, True]
    """
    counted: dict[ir.Node, Counters] = {}
    _Walk(model.nodes, counted).match(_below_meter(model) if metered else model.output, tree)
    return counted


def _below_meter(model: Any) -> int:
    """Return the last node of the user's pipeline: it is below the meter, which may be below the note of the end."""
    waiting = [int(model.output)]
    while waiting:
        node = model.nodes[waiting.pop()]
        if _kind(node.name) == _METER:
            return int(node.inputs[-1]) if node.inputs else 0
        waiting.extend(number for number in node.inputs if number in model.nodes)
    return 0


@dataclass(frozen=True)
class _Walk:
    """Walks TensorFlow's tree and the user's together, from the end to the sources."""

    nodes: Mapping[int, Any]
    counted: dict[ir.Node, Counters]

    def match(self, number: int, tree: ir.Node, needed: float = 1.0) -> None:
        if number not in self.nodes:
            return
        model = self.nodes[number]
        name = _kind(model.name)
        if isinstance(tree, _ONLY_OPTIONS):
            self.match(number, tree.input, needed)
        elif name in _ADDED and not (name == "Prefetch" and isinstance(tree, ir.Prefetch)):
            self.match(next(iter(model.inputs), 0), tree, needed)
        elif isinstance(tree, ir.Source) or _is_named(name, tree):
            self._count(model, tree, needed)
        elif name in _FUSED and isinstance(tree, _FUSED[name][0]):
            self._fused(model, tree, needed)
        elif isinstance(tree, ir.Unary):
            self.match(number, tree.input, needed)

    def _fused(self, model: Any, later: ir.Node, needed: float) -> None:
        kind = _FUSED[_kind(model.name)][1]
        earlier = later.inputs[0]
        # No stage is left between two that TensorFlow fused.
        while isinstance(earlier, ir.Unary) and not isinstance(earlier, kind):
            earlier = earlier.input
        if not isinstance(earlier, kind):
            return
        # Both pairs are noted under the earlier stage, which has the work.
        self._note(earlier, replace(_counters(model, needed), fused_with=later))
        self._inputs(model, earlier, needed)

    def _count(self, model: Any, tree: ir.Node, needed: float) -> None:
        own = _counters(model, needed)
        if isinstance(tree, ir.Source):
            inner = list(self._below(model))
            own = replace(own, seconds=own.seconds + sum(each.processing_time for each in inner) / 1e9)
            self._note(tree, replace(own, buffered_bytes=own.buffered_bytes + _buffered(inner)))
            return
        if isinstance(tree, _OF_MANY):
            names, inner = _apart(model)
            self._note(tree, self._with_inner(own, inner))
            if names is not None:
                self.match(names, tree.inputs[0], needed * self._ratio(model, names))
            return
        held = 0
        if isinstance(tree, ir.Cache) and model.inputs:
            model = self.nodes[model.inputs[0]]
            held = int(model.buffered_bytes)
        self._note(tree, replace(own, buffered_bytes=own.buffered_bytes + held))
        self._inputs(model, tree, needed)

    def _note(self, tree: ir.Node, counters: Counters) -> None:
        known = self.counted.get(tree)
        self.counted[tree] = counters if known is None else known.beside(counters)

    def _inputs(self, model: Any, tree: ir.Node, needed: float) -> None:
        numbers = list(model.inputs)
        # enumerate zips the elements with a range for its numbers.
        below = numbers[1:] if isinstance(tree, ir.Enumerate) else numbers
        for number, child in zip(below, tree.inputs, strict=False):
            self.match(number, child, needed * self._ratio(model, number))

    def _ratio(self, model: Any, number: int) -> float:
        """Return how many elements of an input make one of a stage: the fixed ratio of its kind, or else as counted.

        The counted ratio is too high while a buffer fills.
        """
        if model.ratio and _kind(model.name) not in _COUNTED:
            return float(model.ratio)
        taken = self.nodes[number].num_elements if number in self.nodes else 0
        return taken / model.num_elements if model.num_elements else 1.0

    def _with_inner(self, own: Counters, inner: list[int]) -> Counters:
        """Add the work of the inner datasets being read; those read to their end are gone, and assumed to be alike."""
        given = sum(self.nodes[number].num_elements for number in inner)
        models = [each for number in inner for each in (self.nodes[number], *self._below(self.nodes[number]))]
        spent = sum(each.processing_time for each in models) / 1e9
        share = own.elements / given if given else 0.0
        return replace(own, seconds=own.seconds + spent * share, buffered_bytes=own.buffered_bytes + _buffered(models))

    def _below(self, model: Any) -> Iterator[Any]:
        for number in model.inputs:
            if number in self.nodes:
                yield self.nodes[number]
                yield from self._below(self.nodes[number])


def _kind(name: str) -> str:
    return _VARIANTS.sub("", _VARIANTS.sub("", name))


def _is_named(name: str, tree: ir.Node) -> bool:
    return name in _NAMES.get(type(tree), {type(tree).__name__})


def _apart(model: Any) -> tuple[int | None, list[int]]:
    """Return the input that names what is read, unless it came to its end, and the datasets being read.

    The former is made right after its consumer, and TensorFlow numbers nodes consecutively.
    """
    numbers = list(model.inputs)
    return (numbers[0], numbers[1:]) if numbers and numbers[0] == model.id + 1 else (None, numbers)


def _counters(model: Any, needed: float) -> Counters:
    """Return what a node counted; its work and input are scaled to the elements that it has given already."""
    given, held = int(model.num_elements), int(model.buffered_elements)
    share = given / (given + held) if given else 0.0
    return Counters(
        elements=given,
        needed=needed,
        seconds=share * model.processing_time / 1e9,
        bytes_out=int(model.bytes_produced),
        bytes_in=round(share * model.bytes_consumed),
        buffered_bytes=int(model.buffered_bytes),
        parallelism=_parallelism(model),
        ahead=_works_ahead(model),
    )


def _parallelism(model: Any) -> int | None:
    """Return how many calls may run at once; an interleave has at most one for each dataset it reads at once."""
    numbers = _parameters(model)
    if not _works_ahead(model):
        return None
    return min((numbers[name] for name in ("parallelism", "cycle_length") if name in numbers), default=None)


def _works_ahead(model: Any) -> bool:
    kind = model.DESCRIPTOR.fields_by_name["node_class"].enum_type.values_by_number[model.node_class].name
    return kind.startswith("ASYNC") and _parameters(model).get("buffer_size") != 0


def _parameters(model: Any) -> dict[str, int]:
    return {each.name: int(each.state_value if each.tunable else each.value) for each in model.parameters}


def _buffered(models: list[Any]) -> int:
    return sum(int(each.buffered_bytes) for each in models)
