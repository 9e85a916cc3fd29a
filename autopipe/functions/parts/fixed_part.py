"""Where to cut a function so that its fixed part can be kept: the cheapest cut before everything random.

Work that is the same in every epoch belongs before the cut. Among the cuts that leave it there, the one with the fewest
bytes per element is taken, found as a minimum cut (Ford and Fulkerson, "Maximal flow through a network", 1956) between
that work and what must run again. Arithmetic that costs next to nothing may stand on either side: an image is kept as
``uint8`` and not as the ``float32`` copy that its normalization makes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.effects import described, effects, ops_that_change
from autopipe.functions.analysis.rows import tensors_of_rows
from autopipe.functions.analysis.work import is_work, work_of
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.parts.cut import IllegalCutError, split
from autopipe.functions.subgraph import fed_by, needed_ops, origin

__all__ = [
    "changes_between_epochs",
    "cheapest_cut",
    "first_change",
    "fixed_work",
    "split_before_growth",
    "split_fixed_part",
]

# The size assumed for an unknown dimension, and for a text: it only decides which of two cuts is smaller.
_UNKNOWN_DIMENSION = 512
_TEXT_BYTES = 64 * 1024
# Names of both sides of the cut, which no op has.
_BEFORE, _AFTER = "before the cut", "after the cut"


def changes_between_epochs(fn: Function) -> bool:
    """Return whether a function may give another result for the same element; files count as unchanged."""
    return not effects(fn).steady


@remembered
def split_fixed_part(fn: Function, *, by_rows: bool = False) -> tuple[Function, Function] | None:
    """Return the part of a function that is the same in every epoch, and the rest of it.

    ``None`` if the whole function is the same, or if all work worth keeping depends on a draw.

    Args:
        fn: the function.
        by_rows: whether the first part may only give rows of a batch, not their number or anything that mixes them.

    Raises:
        IllegalCutError: if it cannot be cut before what changes; the message names the op and the user's line.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> def augment(path):
    ...     image = tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path)), (32, 32))
    ...     return tf.image.random_flip_left_right(image) / 255.0
    >>> fixed, rest = split_fixed_part(function_of(tf.data.Dataset.from_tensors("a.jpg").map(augment)))
    >>> effects(fixed).describe(), effects(rest).describe(), fixed.output_spec[0].shape[:2]
    ('reads files (ReadFile)', 'draws random numbers (RandomUniform)', TensorShape([32, 32]))
    """
    if not changes_between_epochs(fn):
        return None
    cut = cheapest_cut(fn, by_rows=by_rows)
    if not cut:
        _refuse_work_that_waits(fn)
        return None
    fixed, rest = split(fn, cut)
    if changes_between_epochs(fixed):
        raise IllegalCutError(f"what must run before the cut {effects(fixed).describe()}")
    return replace(fixed, name=f"fixed part of {fn}"), rest


@remembered
def split_before_growth(fn: Function) -> tuple[Function, Function] | None:
    """Return the part of an unchanging function with the smallest result, and the arithmetic that makes it larger.

    ``None`` if the function changes between epochs, or if it has only arithmetic, or none after its work.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> def decode(jpeg):
    ...     return tf.cast(tf.io.decode_jpeg(jpeg, channels=3), tf.float32) / 255.0
    >>> first, rest = split_before_growth(function_of(tf.data.Dataset.from_tensors(b"").map(decode)))
    >>> first.element_types, rest.element_types
    ((tf.uint8,), (tf.float32,))
    """
    cut = [] if changes_between_epochs(fn) else cheapest_cut(fn)
    if not cut or {id(tensor) for tensor in cut} == {id(origin(tensor)) for tensor in fn.concrete.outputs}:
        return None
    try:
        first, rest = split(fn, cut)
    except IllegalCutError:
        return None
    return replace(first, name=f"first part of {fn}"), rest


def fixed_work(fixed: Function) -> str:
    """Return the work of the fixed part of a function, with where its author wrote it."""
    return work_of(fixed.concrete.graph.get_operations())


def first_change(fn: Function) -> str:
    """Return the first op that may differ between epochs, and where its author wrote it."""
    graph = fn.concrete.graph
    used = needed_ops([*graph.outputs, *graph.control_outputs])
    changing = ops_that_change(fn)
    # An unused draw also counts if it is the only one.
    changing = used & changing or changing
    return next(described(graph, op) for op in graph.get_operations() if op in changing)


def cheapest_cut(fn: Function, side: Sequence[Any] | None = None, *, by_rows: bool = False) -> list[Any]:
    """Return the tensors of the cheapest cut; empty if only arithmetic comes before what changes.

    Args:
        fn: the function.
        side: the inputs that the work before the cut may look at; by default all.
        by_rows: as for :func:`split_fixed_part`.
    """
    of_rows = tensors_of_rows(fn) if by_rows else None
    seen = fn.element_inputs if side is None else side
    fed = fed_by(seen)
    hidden = {tensor.ref() for tensor in fn.element_inputs} - {tensor.ref() for tensor in seen}
    changing = _changing(fn) | fed_by(each.deref() for each in hidden)
    # In the order of the graph, so that the parts are the same in every process.
    fixed = [op for op in fn.concrete.graph.get_operations() if op in fed and op not in changing]
    used = needed_ops(fn.concrete.outputs, waits=False)
    work = [op for op in fixed if op in used and is_work(op)]
    if not work:
        return []
    import networkx

    inputs = [tensor.op for tensor in seen]
    network = networkx.DiGraph()
    network.add_nodes_from([_BEFORE, _AFTER])
    for op in (*inputs, *fixed):
        _add_tensors(network, op, changing, of_rows)
        for tensor in op.inputs:
            if tensor.op in fed or tensor.op in inputs:
                # An edge without a capacity is infinite: an op before the cut needs its operands there, too.
                network.add_edge(op.name, tensor.op.name)
    network.add_edges_from((_BEFORE, op.name) for op in (*work, *inputs))
    network.add_edges_from((tensor.name, _AFTER) for tensor in fn.concrete.outputs if tensor.name in network)
    try:
        _, (kept, _) = networkx.minimum_cut(network, _BEFORE, _AFTER)
    except networkx.NetworkXUnbounded:
        return []
    tensors = [tensor for op in (*inputs, *fixed) for tensor in op.outputs]
    cut = [origin(tensor) for tensor in tensors if tensor.op.name in kept and tensor.name not in kept]
    return list({tensor.name: tensor for tensor in cut}.values())


def _refuse_work_that_waits(fn: Function) -> None:
    """Refuse if all work comes after an op with an unknown effect; if it comes after a draw, nothing is reported."""
    found = effects(fn)
    waits = any(map(is_work, _changing(fn) - ops_that_change(fn)))
    if waits and not found.unseen:
        raise IllegalCutError(f"all work of {fn} comes after {first_change(fn)}, and {fn} {found.describe()}")


def _add_tensors(network: Any, op: Any, changing: set[Any], may_be_cut: set[int] | None) -> None:
    """Add an edge for every tensor of an op, as wide as the tensor is large, to those that use it."""
    for tensor in op.outputs:
        whole = tensor.dtype == tf.resource or (may_be_cut is not None and id(tensor) not in may_be_cut)
        width = {} if whole else {"capacity": _bytes(tensor)}
        network.add_edge(op.name, tensor.name, **width)
        network.add_edges_from((tensor.name, _AFTER if user in changing else user.name) for user in tensor.consumers())


def _changing(fn: Function) -> set[Any]:
    """Return the ops whose results may differ between epochs: those with effects, and all that depends on them."""
    sources = ops_that_change(fn)
    return sources | fed_by([tensor for op in sources for tensor in op.outputs])


def _bytes(tensor: Any) -> int:
    if tensor.shape.rank is None:
        return int(_UNKNOWN_DIMENSION**3 * max(tensor.dtype.size, 1))
    width: int = _TEXT_BYTES if tensor.dtype in (tf.string, tf.variant) else tensor.dtype.size
    return width * math.prod(_UNKNOWN_DIMENSION if size is None else int(size) for size in tensor.shape) + 1
