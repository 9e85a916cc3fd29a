"""How a pipeline is read: each dataset once, by the reader of its class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from autopipe.functions.function import Function, describe_callable
from autopipe.functions.joined.inlined import inlined
from autopipe.pipeline import ir, trees
from autopipe.pipeline.seeds import is_reseeded
from autopipe.pipeline.serialized import HiddenArgumentError
from autopipe.pipeline.source_lines import line_of_tracing, with_line

__all__ = [
    "ORDERS_IN_TURN",
    "Reader",
    "as_bool",
    "element_shapes",
    "element_types",
    "function_from",
    "function_of",
    "inputs_of",
    "is_read_twice",
    "node_of",
    "opaque",
    "read_tree",
    "scalar",
]

Reader: TypeAlias = Callable[[Any], ir.Node]
"""Makes the node of a dataset of one class; where an argument is missing, or of another type, it raises."""

_UNREAD = {
    "_CopyToDeviceDataset": "elements are on another device after it, where autopipe changes nothing; put it after "
    "optimize(), as in autopipe.optimize(dataset).apply(tf.data.experimental.prefetch_to_device(device))",
    "_MapAndBatchDataset": "autopipe does not read map_and_batch, which TensorFlow deprecates; write "
    "map(function, num_parallel_calls=tf.data.AUTOTUNE).batch(size) in its place",
    "_ShuffleAndRepeatDataset": "autopipe does not read shuffle_and_repeat, which TensorFlow deprecates; write "
    "shuffle(buffer_size).repeat(count) in its place",
    "_VariantDataset": "TensorFlow does not tell what it is made of; in choose_from_datasets() that is what chooses",
}

ORDERS_IN_TURN = "the orders of two branches are drawn from its seed in turn"

_READ_NAMES = frozenset({"FixedLengthRecordDatasetV2", "TextLineDatasetV2"})

_TOO_DEEP = (
    "it has more stages one after another than Python can follow; where they are one concatenation for each file, "
    "make them of all names at once, as TextLineDataset(names) does, or names.interleave(read)"
)

# A stage that is read at several places counts as often: most analyses follow each path.
_MOST_STAGES = 2000
_TOO_MANY = (
    "it has {:,} stages, counting those read at several places as often, and autopipe takes at most 2,000; if a "
    "dataset is joined to itself again and again, write repeat(count) instead"
)


@dataclass(frozen=True)
class _Walk:
    """One pipeline while it is read.

    Attributes:
        readers: by the names of classes in TensorFlow.
        read_twice: the ids of the datasets that are read at two places.
        seen: the datasets met so far, each with its node; it holds them so that their ids are not reused.
    """

    readers: Mapping[str, Reader]
    read_twice: frozenset[int]
    seen: dict[int, tuple[Any, ir.Node]] = field(default_factory=dict)


_WALK: ContextVar[_Walk] = ContextVar("_WALK")


def read_tree(dataset: Any, readers: Mapping[str, Reader]) -> ir.Node:
    """Read a dataset and all that it reads from."""
    token = _WALK.set(_Walk(readers, _read_twice(dataset)))
    try:
        tree = node_of(dataset)
        stages = trees.fold(tree, lambda _, before: 1 + sum(before))
        return opaque(dataset, _TOO_MANY.format(stages)) if stages > _MOST_STAGES else tree
    except RecursionError:
        return opaque(dataset, _TOO_DEEP)
    finally:
        _WALK.reset(token)


def node_of(dataset: Any) -> ir.Node:
    """Read a dataset; one that the pipeline uses twice is one node, since it has one seed generator."""
    seen = _WALK.get().seen
    if id(dataset) not in seen:
        seen[id(dataset)] = dataset, with_line(_read(dataset), dataset)
    return seen[id(dataset)][1]


def inputs_of(dataset: Any) -> list[Any]:
    """Return the datasets that a dataset reads from.

    ``Dataset.apply`` overwrites the inputs of a concatenation that it ends with, which then seems to have only one. And
    some readers of files report no input, though a dataset gives them the names.
    """
    if type(dataset).__name__ == "_ConcatenateDataset":
        return [dataset._input_dataset, dataset._dataset_to_concatenate]
    if type(dataset).__name__ in _READ_NAMES:
        return [dataset._filenames]
    return list(dataset._inputs())


def is_read_twice(dataset: Any) -> bool:
    """Return whether the pipeline reads a dataset at two places."""
    return id(dataset) in _WALK.get().read_twice


def _read_twice(dataset: Any) -> frozenset[int]:
    """Return the ids of the datasets of a pipeline that several others read, and of all upstream of those."""
    readers: Counter[int] = Counter()
    waiting, met = [dataset], {id(dataset): dataset}
    while waiting:
        for source in inputs_of(waiting.pop()):
            readers[id(source)] += 1
            if id(source) not in met:
                met[id(source)] = source
                waiting.append(source)
    shared = (met[number] for number, count in readers.items() if count > 1)
    return frozenset(id(each) for dataset in shared for each in _upstream(dataset))


def _read(dataset: Any) -> ir.Node:
    own_tree = getattr(dataset, "_autopipe_tree", None)
    if isinstance(own_tree, ir.Node):
        if any(map(is_reseeded, trees.walk(own_tree))) and any(map(is_read_twice, _upstream(dataset))):
            return opaque(dataset, ORDERS_IN_TURN)
        return trees.transform(own_tree, _with_orders_of_its_own)
    reader = _WALK.get().readers.get(type(dataset).__name__)
    if reader is None:
        return opaque(dataset, _UNREAD.get(type(dataset).__name__, "autopipe does not know this transformation"))
    try:
        return reader(dataset)
    except (AttributeError, TypeError, ValueError) as failed:
        return opaque(dataset, _why_unread(failed))
    except HiddenArgumentError as hidden:
        return opaque(dataset, str(hidden))


def _with_orders_of_its_own(node: ir.Node) -> ir.Node:
    """Drop the live generator of a shuffle's orders: reading a pipeline must not draw from it."""
    return replace(node, seed_generator=None) if isinstance(node, ir.Shuffle) else node


def _why_unread(failed: Exception) -> str:
    if isinstance(failed, AttributeError) and type(failed.obj).__module__.startswith("tensorflow"):
        return f"this TensorFlow release keeps its arguments elsewhere ({failed})"
    return f"autopipe cannot read its arguments ({type(failed).__name__}: {failed})"


def opaque(dataset: Any, reason: str) -> ir.Opaque:
    """Return the node of a dataset that is not read, and why."""
    label = type(dataset).__name__.strip("_")
    hidden = _upstream(dataset)
    functions = tuple(_functions_of(hidden))
    classes = tuple(type(each).__name__ for each in hidden)
    return ir.Opaque(dataset=dataset, label=label, reason=reason, functions=functions, classes=classes)


def _functions_of(datasets: list[Any]) -> Iterator[Function]:
    """Yield the functions of some datasets, except those of TensorFlow 1, which have no graph."""
    for dataset in datasets:
        for wrapper in dataset._functions():
            with suppress(AttributeError):
                yield function_from(wrapper, dataset)


def _upstream(dataset: Any) -> list[Any]:
    """Return a dataset and all that it reads from, each once, itself first."""
    found = {id(dataset): dataset}
    waiting = [dataset]
    while waiting:
        new = {id(source): source for source in inputs_of(waiting.pop()) if id(source) not in found}
        found |= new
        waiting.extend(new.values())
    return list(found.values())


def element_types(dataset: Any) -> list[Any]:
    """Return the flat dtypes of one element as TensorFlow's ops take them."""
    return list(dataset._flat_types)


def element_shapes(dataset: Any) -> list[Any]:
    """Return the flat shapes of one element as TensorFlow's ops take them."""
    return list(dataset._flat_shapes)


def function_of(dataset: Any) -> Function:
    """Read the function of a ``map``, ``filter``, ``flat_map`` or ``interleave``, its captures live."""
    (wrapper,) = dataset._functions()
    return function_from(wrapper, dataset)


def function_from(wrapper: Any, dataset: Any) -> Function:
    """Read one of the functions of a dataset."""
    name, location = describe_callable(wrapper._func)
    fn = Function(
        concrete=wrapper.function,
        input_spec=wrapper._input_structure,
        output_spec=wrapper.output_structure,
        element_types=tuple(element_types(dataset)),
        element_shapes=tuple(element_shapes(dataset)),
        name=name,
        location=location,
        traced_at=line_of_tracing(wrapper.function),
        keeps_alive=(wrapper,),
    )
    return inlined(fn)


def scalar(tensor: Any) -> Any:
    """Return the Python value of an argument, whether it was kept as a tensor or as given."""
    value = tensor.numpy() if hasattr(tensor, "numpy") else tensor
    if isinstance(value, bytes):
        return value.decode()
    return value.item() if hasattr(value, "item") else value


def as_bool(deterministic: str) -> bool | None:
    """Return the ``deterministic`` attribute of TensorFlow's ops in the form that its methods take.

    >>> as_bool("true"), as_bool("default")
    (True, None)
    """
    return {"true": True, "false": False, "default": None}[deterministic]
