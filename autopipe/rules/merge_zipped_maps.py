from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.effects import effects
from autopipe.functions.analysis.rounding import jumps_after_regrouping, rounds_alike
from autopipe.functions.function import Function
from autopipe.functions.joined.compose import run_whole
from autopipe.functions.joined.losing import loses_errors, places_needed
from autopipe.functions.joined.positional import of_position
from autopipe.pipeline.ir import Map, Node, Prefetch, Range, Repeat, Skip, Take, Tensors, TensorSlices, Zip
from autopipe.pipeline.positions import columns, range_of
from autopipe.pipeline.signature import signature
from autopipe.rules._base import Keeps, Obligation, Rewrite, rule
from autopipe.rules._calls import no_fewer_calls
from autopipe.rules._obligations import ArraysOnHost, CallsUnseen, ErrorsEndEpoch, NoErrorIsLost, RoundingUnseen
from autopipe.rules._rounding import up_to_rounding

_KNOWN_BY_POSITION = (Range, Skip, Take, TensorSlices)
_SOURCES = (*_KNOWN_BY_POSITION, Repeat)


@rule(keeps=Keeps.SEQUENCE)
def merge_zipped_maps(node: Node) -> Rewrite | None:
    """zip(tensor_slices | map(f), tensor_slices | map(g))  ->  range | map(f and g)

    A zip of arrays in memory, ranges, and arrays repeated without end depends on the position alone: later stages can
    shuffle positions, and call one function for whole batches. Keras' windows of ``timeseries_dataset_from_array`` are
    an example: each takes six stages and three zips. It needs: nothing in the functions from which the order of calls
    could be seen, sources of one length, plain tensors as results, arrays in the memory of the host (or that fit there
    once more), no ``ignore_errors`` downstream (which would zip others after an error) and, where the sequence is
    promised, no error of a map in something that a later one ignores.
    """
    if not isinstance(node, Zip) or not _is_positional(node):
        return None
    stages = list(_down_to_sources(node))
    maps = [each for each in stages if isinstance(each, Map)]
    sources = [signature(each) for each in stages if isinstance(each, _SOURCES)]
    counts = {each.cardinality for each in sources if not each.is_infinite}
    if not maps or len(counts) != 1:
        return None
    functions = [each.fn for each in maps]
    if len({each.num_parallel_calls is None for each in maps}) > 1 and not all(effects(fn).pure for fn in functions):
        # Parallel maps would have to wait for sequential ones.
        return None
    unseen = tuple(CallsUnseen(fn) for fn in dict.fromkeys(functions))
    fn = of_position(_values(node), functions, signature(node).element_spec)
    merged = Map(
        input=range_of(counts.pop()),
        fn=fn,
        num_parallel_calls=_calls(maps),
        deterministic=True if any(each.deterministic for each in maps) else None,
        use_unbounded_threadpool=any(each.use_unbounded_threadpool for each in maps),
    )
    places = tuple(range(len(signature(node).flat_specs)))
    losing = map(NoErrorIsLost, dict.fromkeys(_losing_errors(node, places)))
    needed: tuple[Obligation, ...] = (*unseen, ErrorsEndEpoch(), *losing, ArraysOnHost(node))
    exact = rounds_alike(fn, *functions)
    return up_to_rounding(merged, needed, exact=exact, unseen=RoundingUnseen(jumps_after_regrouping(fn)))


def _calls(maps: Sequence[Map]) -> int | None:
    """Return the calls at once of a map that does the work of several: the most that any had."""
    calls = [each.num_parallel_calls for each in maps if each.num_parallel_calls is not None]
    return no_fewer_calls(calls) if len(calls) == len(maps) else None


def _is_positional(node: Node) -> bool:
    """Return whether each element is known by its position alone, and is made of plain tensors."""
    if not all(isinstance(part, tf.TensorSpec) for part in signature(node).flat_specs):
        return False
    match node:
        case Repeat(is_infinite=True, input=Tensors()):
            return True
        case Zip() | Prefetch():
            return all(map(_is_positional, node.inputs))
        case Map(one_for_one_in_order=True):
            return _is_positional(node.input)
    return isinstance(node, _KNOWN_BY_POSITION) and columns(node) is not None


def _down_to_sources(node: Node) -> Iterator[Node]:
    """Yield stages, inputs first, down to sources whose elements are known by position."""
    if not isinstance(node, _SOURCES):
        for each in node.inputs:
            yield from _down_to_sources(each)
    yield node


def _losing_errors(node: Node, places: tuple[int, ...]) -> Iterator[Function]:
    """Yield the functions whose errors are lost if only some of the flat tensors of ``node`` are asked for."""
    match node:
        case Map(fn=fn):
            if loses_errors(fn, places):
                yield fn
            yield from _losing_errors(node.input, places_needed(fn, places))
        case Zip() | Prefetch():
            first = 0
            for each in node.inputs:
                width = len(signature(each).flat_specs)
                yield from _losing_errors(each, tuple(at - first for at in places if first <= at < first + width))
                first += width


def _values(node: Node) -> Callable[[Any], list[Any]]:
    """Return the function from a position to the flat tensors of the element there."""
    match node:
        case Repeat(input=Tensors(components=components)):
            return lambda position: list(components)
        case Zip() | Prefetch():
            parts = [_values(each) for each in node.inputs]
            return lambda position: [value for part in parts for value in part(position)]
        case Map(fn=fn):
            given = _values(node.input)
            return lambda position: run_whole(fn, given(position))
    rows = columns(node) or ()
    return lambda position: [column(position) for column in rows]
