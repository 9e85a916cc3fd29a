"""A function that makes datasets and maps their elements -> a function that makes the datasets, and the maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, dropwhile, zip_longest
from typing import Any, NamedTuple

import tensorflow as tf

from autopipe.functions.analysis.ranges import know_length
from autopipe.functions.analysis.work import work_of
from autopipe.functions.function import Function
from autopipe.functions.joined.inlined import inlined
from autopipe.functions.memo import remembered
from autopipe.functions.source import written_at
from autopipe.functions.subgraph import called_graphs, constant, copy_into_trace, origin, specs, stand_ins, trace

__all__ = ["LastMap", "split_last_maps"]

_MAPS = frozenset({"MapDataset", "ParallelMapDatasetV2"})
_ORDER = {b"true": True, b"false": False, b"default": None}
# How TensorFlow names the graph of a function that is given to ``Dataset.map``.
_PREFIX = "Dataset_map_"


@dataclass(frozen=True)
class LastMap:
    """A map at the end of the datasets that a function makes, with the arguments of ``Dataset.map``.

    Attributes:
        fn: takes an element of the dataset, and then what the map needs of the function's own inputs.
        num_parallel_calls: how many it calls at once in each dataset.
        deterministic: whether it keeps the order of a dataset.
        use_unbounded_threadpool: whether its calls have their own threads.
        use_inter_op_parallelism: whether the ops of a call may run at once.
    """

    fn: Function
    num_parallel_calls: int | None
    deterministic: bool | None
    use_unbounded_threadpool: bool
    use_inter_op_parallelism: bool


@remembered
def split_last_maps(fn: Function) -> tuple[Function, tuple[LastMap, ...]] | None:
    """Return the function that makes the datasets without the maps at their end, and those maps, the first one first.

    Values that the maps use of the element that a dataset was made of, such as the label of its file, are passed along
    with each element of the dataset. Stages that read ahead after the maps are left out. ``None`` if no map at the end
    does work, or one cannot be moved out.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> def lines(file):
    ...     return tf.data.TextLineDataset(file).map(lambda line: tf.strings.split(line)[0])
    >>> opened, (last,) = split_last_maps(function_of(tf.data.Dataset.from_tensors("a.txt").interleave(lines)))
    >>> opened.output_spec.element_spec, last.fn.name, last.fn.output_spec
    ((TensorSpec(shape=(), dtype=tf.string, name=None),), '<lambda>', TensorSpec(shape=(), dtype=tf.string, name=None))
    """
    maps = _last_maps(fn)
    if not maps:
        return None
    known = _known(fn, maps)
    told = list({id(each): each for inner in maps for each in inner.given if id(each) not in known}.values())
    if not _are_plain([*told, *(each for inner in maps for each in inner.element)]):
        return None
    opening = _opening(fn, maps[0], told)
    functions = [_mapping(fn, inner, then, told, known) for inner, then in zip_longest(maps, maps[1:])]
    return opening, tuple(map(_with_arguments, functions, maps))


class _Inner(NamedTuple):
    """A map inside a function: its op, the graph of its own function, and what that takes and captures.

    Attributes:
        op: the op of the map.
        body: the graph of what it calls.
        element: what that takes of an element, tensors of its graph.
        given: what it captures after that, tensors of the graph of the op.
    """

    op: Any
    body: Any
    element: Sequence[Any]
    given: Sequence[Any]

    @classmethod
    def of(cls, op: Any) -> _Inner:
        (body,) = called_graphs(op.graph, op)
        given = op.inputs[1 : 1 + len(op.get_attr("Targuments"))]
        return cls(op, body, body.inputs[: len(body.inputs) - len(given)], given)


def _last_maps(fn: Function) -> list[_Inner]:
    """Return the maps at the end, from the first one that does work on."""
    (made,) = fn.concrete.graph.outputs
    found: list[_Inner] = []
    op = origin(made).op
    while op.type == "PrefetchDataset":
        op = origin(op.inputs[0]).op
    while op.type in _MAPS and _can_be_read(op):
        found.insert(0, _Inner.of(op))
        op = origin(op.inputs[0]).op
    return list(dropwhile(lambda inner: not work_of(inner.body.get_operations()), found))


def _can_be_read(op: Any) -> bool:
    if called_graphs(op.graph, op) == [None] or not op.get_attr("preserve_cardinality"):
        return False
    if op.type == "MapDataset":
        return not op.get_attr("force_synchronous")
    return constant(op.inputs[-1]) is not None


def _known(fn: Function, maps: Sequence[_Inner]) -> dict[int, Any]:
    """Return the replacements of captured tensors that are the same for all datasets, by the id of each.

    A constant stays an argument: TensorFlow may compute differently with a constant that it sees, and round
    differently.
    """
    known = {id(inside): live for live, inside in fn.concrete.graph.captures}
    for tensor in chain.from_iterable(inner.given for inner in maps):
        if id(tensor) not in known and tensor.op.type == "Const":
            known[id(tensor)] = tf.constant(constant(tensor), tensor.dtype)
    return known


def _are_plain(tensors: Sequence[Any]) -> bool:
    return all(tensor.dtype not in (tf.variant, tf.resource) for tensor in tensors)


def _opening(fn: Function, first: _Inner, told: Sequence[Any]) -> Function:
    """Return the function that makes the datasets that the first map reads, with the values that the maps need."""
    graph = fn.concrete.graph
    wanted = [first.op.inputs[0], *told]
    spec = specs([*first.element, *told])

    def opened(*tensors: Any) -> list[Any]:
        known = stand_ins(fn.element_inputs, tensors)
        variant, *beside = copy_into_trace(graph, wanted, known, also=graph.control_outputs)
        if not beside:
            return [variant]
        elements = tf.data.experimental.from_variant(variant, specs(first.element))
        return [tf.data.experimental.to_variant(elements.map(lambda *element: (*element, *beside)))]

    traced = trace(
        opened,
        specs(fn.element_inputs),
        fn,
        name=fn.name,
        input_spec=fn.input_spec,
        output_spec=tf.data.DatasetSpec(spec),
    )
    types, shapes = tuple(each.dtype for each in spec), tuple(each.shape for each in spec)
    return replace(traced, element_types=types, element_shapes=shapes)


def _mapping(
    fn: Function, inner: _Inner, then: _Inner | None, told: Sequence[Any], known: Mapping[int, Any]
) -> Function:
    """Return the function of one of the maps; it passes on the values that the next one may need."""
    body, width = inner.body, len(inner.element)
    inputs = specs([*inner.element, *told])

    def mapped(*tensors: Any) -> list[Any]:
        element, beside = tensors[:width], tensors[width:]
        there = {**known, **{id(each): made for each, made in zip(told, beside, strict=True)}}
        stands = stand_ins(body.inputs, [*element, *(there[id(each)] for each in inner.given)])
        made = copy_into_trace(body, body.outputs, stands, also=body.control_outputs, on_copy=know_length)
        return [*made, *beside] if then else made

    output_spec = specs([*then.element, *told]) if then else fn.output_spec.element_spec
    traced = trace(mapped, inputs, fn, name=_name(body), input_spec=inputs, output_spec=output_spec)
    return inlined(replace(traced, location=written_at(inner.op)))


def _name(body: Any) -> str:
    name = str(body.name).removeprefix(_PREFIX)
    return "<lambda>" if name == "lambda" else name


def _with_arguments(fn: Function, inner: _Inner) -> LastMap:
    op = inner.op
    use_inter_op_parallelism = op.get_attr("use_inter_op_parallelism")
    if op.type == "MapDataset":
        return LastMap(fn, None, None, False, use_inter_op_parallelism)
    calls, order = int(constant(op.inputs[-1])), _ORDER[op.get_attr("deterministic")]
    return LastMap(fn, calls, order, op.get_attr("use_unbounded_threadpool"), use_inter_op_parallelism)
