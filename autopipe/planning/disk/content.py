"""Which elements a pipeline gives, as a key: the same key in another process means the same elements.

When in doubt there is no key: anything that could make the elements differ must be part of it.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import tensorflow as tf

from autopipe.environment import processors, release
from autopipe.functions.analysis.effects import Effects, effects
from autopipe.functions.analysis.fingerprint import function_fingerprint
from autopipe.functions.analysis.order_inside import op_of_free_order
from autopipe.functions.analysis.resources import fixed_table_reads
from autopipe.functions.file_ops import READERS, READERS_OF_EACH
from autopipe.functions.function import Function
from autopipe.functions.subgraph import MUST_COMPILE, spec_kind, with_called
from autopipe.pipeline import ir, trees
from autopipe.pipeline.arrays import as_array
from autopipe.pipeline.literal import literal
from autopipe.pipeline.signature import signature
from autopipe.pipeline.text import stage
from autopipe.planning.disk.files_read import UnknownContentError, file_states

__all__ = ["UnknownContentError", "content_key"]

_SCHEMA = 2
# Stages that pass on their input in its order, unless they are refused.
_PASSING = ir.Cache | ir.End | ir.Options | ir.Prefetch | ir.Shuffle | ir.ThreadPool
_DETERMINED = (
    ir.Batching | ir.Concatenate | ir.Enumerate | ir.FilesReader | ir.Filter | ir.Flattening | ir.GroupByWindow
    | ir.Map | ir.Range | ir.Rebatch | ir.Repeat | ir.Shard | ir.Skip | ir.Take | ir.TensorSlices | ir.Tensors
    | ir.Unbatch | ir.Window | ir.Zip
)  # fmt: skip
# Fields that only decide how fast elements are made, or which objects hold them; functions and arrays go in by value.
_NOT_CONTENT = frozenset(
    "buffer_output_elements buffer_size dataset deterministic fn in_order key_func line name num_parallel_calls origin "
    "parts predicate prefetch_input_elements reduce_func synchronous use_inter_op_parallelism use_unbounded_threadpool "
    "window_size_func".split()
)
# Ops of TensorFlow that are not in tf.raw_ops.
_UNEXPORTED = frozenset({"_Arg", "_Retval"})
# These read the descriptor of a message from a file, unless it is linked in, or given in full.
_READ_DESCRIPTORS, _NO_FILES = frozenset({"DecodeProtoV2", "EncodeProto"}), (b"local://", b"bytes://")
# Datasets inside a function that give the same elements in the same order whenever they are made.
_DETERMINED_INSIDE = (
    READERS
    | READERS_OF_EACH
    | frozenset(
        "BatchDatasetV2 ConcatenateDataset FilterDataset InterleaveDataset MapDataset PaddedBatchDatasetV2 "
        "ParallelBatchDataset ParallelMapDatasetV2 PrefetchDataset RangeDataset RepeatDataset ShardDataset SkipDataset "
        "TakeDataset TensorDataset TensorSliceDataset UnbatchDataset WindowDataset ZipDataset".split()
    )
)


def content_key(tree: ir.Node) -> str:
    """Return a key of the elements that a pipeline gives, and of their order.

    It covers the stages and their arguments, the functions and the values they capture, the arrays in memory, the name,
    size and times of change of every file that is read, and the versions of TensorFlow and autopipe. To list the
    files, the part of the pipeline that gives their names is run.

    The change time of a file cannot be set by hand, unlike its modification time. So a file that was replaced while its
    elements were written has another key from then on, even if an older copy is restored.

    Raises:
        UnknownContentError: if the elements could differ though the key does not.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> keys = [content_key(extract(tf.data.Dataset.range(9).map(lambda x, k=k: x * k))) for k in (2, 2, 3)]
    >>> keys[0] == keys[1], keys[0] == keys[2]
    (True, False)
    """
    for node in trees.walk(tree):
        _refuse_unknown(node)
    spec = signature(tree).element_spec
    _refuse_datasets(spec)
    digest = hashlib.sha256()
    _feed(digest, *_versions(), repr(spec))
    for node in trees.walk(tree):
        if isinstance(node, _DETERMINED):
            _feed(digest, *_own_content(node))
    for state in file_states(tree):
        _feed(digest, repr(state))
    return digest.hexdigest()[:32]


def _feed(digest: Any, *parts: Any) -> None:
    """Add texts, bytes and arrays to a digest, each with its length, so that no two lists of parts look alike."""
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode())
        digest.update(data)


def _versions() -> tuple[str, ...]:
    return str(_SCHEMA), tf.__version__, release() or "a checkout", platform.machine()


def _refuse_unknown(node: ir.Node) -> None:
    if getattr(node, "deterministic", None) is False:
        raise UnknownContentError(f"{stage(node)} frees the order of elements")
    match node:
        case ir.Opaque(label=label, reason=reason):
            raise UnknownContentError(f"{label} cannot be read: {reason}")
        case ir.Options(options=options) if options.deterministic is False:
            raise UnknownContentError("options.deterministic=False frees the order of elements")
        case ir.Shuffle(mixes=True):
            raise UnknownContentError(f"{stage(node)} gives each run its own order")
        case ir.Cache(in_memory=False):
            raise UnknownContentError(f"{stage(node)} may already hold other elements")
        case ir.Repeat(is_infinite=True):
            raise UnknownContentError(f"{stage(node)} never ends")
    if not isinstance(node, _DETERMINED | _PASSING):
        raise UnknownContentError(f"{stage(node)} may give other elements in another run")
    for fn in trees.called_by(node):
        _refuse_unknown_function(fn)


def _refuse_unknown_function(fn: Function) -> None:
    found = effects(fn)
    if found != Effects(file_reads=found.file_reads):
        raise UnknownContentError(f"{fn} {found.describe()}")
    for op in with_called(fn.concrete.graph.as_graph_def()):
        if not _is_of_tensorflow(op.op):
            raise UnknownContentError(
                f"{fn} calls {op.op}, which is not an op of TensorFlow: its next version may do something else"
            )
        if op.op in _READ_DESCRIPTORS and not op.attr["descriptor_source"].s.startswith(_NO_FILES):
            raise UnknownContentError(f"{fn} reads a descriptor from a file ({op.op}), which may change")
        if re.search(r"Dataset(V\d)?$", op.op) and op.op not in _DETERMINED_INSIDE:
            raise UnknownContentError(f"{fn} makes a {op.op}, which may give other elements in another run")
    freed = op_of_free_order(fn)
    if freed:
        raise UnknownContentError(f"{fn} frees the order of elements ({freed})")


def _is_of_tensorflow(op_type: str) -> bool:
    """Return whether an op comes with TensorFlow, whose version is in the key; other ops have other versions."""
    return op_type in _UNEXPORTED or hasattr(tf.raw_ops, op_type)


def _refuse_datasets(spec: Any) -> None:
    for part in tf.nest.flatten(spec):
        if not isinstance(part, tf.TensorSpec | tf.RaggedTensorSpec | tf.SparseTensorSpec):
            raise UnknownContentError(f"its elements hold a {spec_kind(part)}")


def _own_content(node: ir.Node) -> Iterator[Any]:
    yield type(node).__name__
    for each in fields(node):
        value = getattr(node, each.name)
        if each.compare and each.name not in _NOT_CONTENT and not isinstance(value, ir.Node):
            yield f"{each.name}={literal(value)}"
    if isinstance(node, ir.Source):
        yield repr(node.dataset.element_spec)
    for component in getattr(node, "components", ()):
        yield from _value(component)
    if ir.AUTOTUNE in (getattr(node, "cycle_length", None), getattr(node, "num_parallel_reads", None)):
        yield from _order_by_machine(getattr(node, "num_parallel_calls", None))
    for fn in trees.called_by(node):
        yield from _function_content(fn)


def _order_by_machine(calls: int | None = None) -> tuple[str, ...]:
    """Return what decides how many inputs TensorFlow interleaves, if the author left it to TensorFlow."""
    return str(calls), str(processors())


def _function_content(fn: Function) -> Iterator[Any]:
    graph = fn.concrete.graph
    yield function_fingerprint(fn)
    # The fingerprint covers what is computed; these cover which of it is returned, and where XLA may round differently.
    place = {op.name: str(index) for index, op in enumerate(graph.get_operations())}
    yield from (f"{place[tensor.op.name]}:{tensor.value_index}" for tensor in fn.concrete.outputs)
    definition = graph.as_graph_def()
    for op in with_called(definition):
        if op.attr[MUST_COMPILE].b:
            yield f"{op.op} compiled"
        if "Interleave" in op.op:
            yield from _order_by_machine()
    for live, inside in graph.captures:
        yield from _captured(fn, live, inside)


def _captured(fn: Function, live: Any, inside: Any) -> Iterator[Any]:
    if inside.dtype != tf.resource:
        yield from _value(live)
        return
    lookups = set(inside.consumers())
    if not lookups or not lookups <= fixed_table_reads(fn.concrete.graph):
        raise UnknownContentError(f"{fn} captures an object that may change")
    find = next(op for op in lookups if op.type == "LookupTableFindV2")
    types = {"Tkeys": find.get_attr("Tin"), "Tvalues": find.get_attr("Tout")}
    keys, values = tf.raw_ops.LookupTableExportV2(table_handle=live, **types)
    order = tf.argsort(keys) if keys.dtype != tf.string else sorted(range(len(keys)), key=keys.numpy().__getitem__)
    yield from _value(tf.gather(keys, order))
    yield from _value(tf.gather(values, order))


def _value(tensor: Any) -> Iterator[Any]:
    if tensor.dtype in (tf.resource, tf.variant):
        raise UnknownContentError("it holds an object that is not a plain tensor")
    array = as_array(tensor.numpy())
    yield f"{tensor.dtype}{array.shape}"
    if tensor.dtype == tf.string:
        yield from array.ravel().tolist()
    else:
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8)
