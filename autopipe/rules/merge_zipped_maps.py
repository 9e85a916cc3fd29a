"""The rule named as this file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autopipe.functions.compose import run_whole
from autopipe.functions.positional import of_position
from autopipe.pipeline.ir import AUTOTUNE, Map, Node, Prefetch, Range, Repeat, Tensors, Zip
from autopipe.pipeline.positions import columns, range_of
from autopipe.pipeline.signature import signature
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import ArraysOnHost, ErrorsEndEpoch, Pure


@rule(keeps=Keeps.SEQUENCE)
def merge_zipped_maps(node: Node) -> Rewrite | None:
    """zip(range | map(f), range | map(g))  ->  range | map(f and g)

    Keras' ``timeseries_dataset_from_array`` zips arrays, each repeated without end, with positions, and maps the pairs
    to windows: six stages and three zips for each element. All of it is one function of the position, which stages
    behind it may then call for whole batches. It takes: functions that only compute, ranges of one length, plain
    tensors as results, arrays in the memory of the host (or that fit there once more), and no ``ignore_errors``
    downstream, which would zip others after an error.
    """
    if not isinstance(node, Zip) or not _is_positional(node):
        return None
    ranges = [each for each in _upstream(node) if isinstance(each, Range)]
    maps = [each for each in _upstream(node) if isinstance(each, Map)]
    if not maps or len({signature(each).cardinality for each in ranges}) != 1:
        return None
    calls = AUTOTUNE if any(each.num_parallel_calls for each in maps) else None
    functions = [each.fn for each in maps]
    pure = tuple(Pure(fn) for fn in dict.fromkeys(functions))
    fn = of_position(lambda position: _values(node, position), functions, signature(node).element_spec)
    positions = range_of(signature(ranges[0]).cardinality)
    return Rewrite(Map(input=positions, fn=fn, num_parallel_calls=calls), (*pure, ErrorsEndEpoch(), ArraysOnHost(node)))


def _is_positional(node: Node) -> bool:
    """Return whether each element is known by its position alone, and is made of plain tensors."""
    import tensorflow as tf

    if not all(isinstance(part, tf.TensorSpec) for part in tf.nest.flatten(signature(node).element_spec)):
        return False
    match node:
        case Range() | Repeat(count=-1, input=Tensors()):
            return True
        case Zip() | Prefetch():
            return all(map(_is_positional, node.inputs))
        case Map(preserve_cardinality=True, deterministic=None | True):
            return _is_positional(node.input)
    return False


def _upstream(node: Node) -> Iterator[Node]:
    """Yield a stage after those that it reads from."""
    for each in node.inputs:
        yield from _upstream(each)
    yield node


def _values(node: Node, position: Any) -> list[Any]:
    """Return the flat tensors of the element at a position."""
    match node:
        case Range():
            return [column(position) for column in columns(node) or ()]
        case Repeat(input=Tensors(components=components)):
            return list(components)
        case Map():
            return run_whole(node.fn, _values(node.inputs[0], position))
    return [value for each in node.inputs for value in _values(each, position)]
