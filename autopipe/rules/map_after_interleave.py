from dataclasses import replace

from autopipe.functions.analysis.effects import effects
from autopipe.functions.function import Function
from autopipe.functions.parts.last_maps import LastMap, split_last_maps
from autopipe.pipeline.ir import AUTOTUNE, FlatMap, GroupByWindow, Interleave, Map, Node
from autopipe.pipeline.knobs import datasets_in_turn
from autopipe.rules._ahead import held_of_a_cycle
from autopipe.rules._base import Keeps, Obligation, Phase, Rewrite, rule
from autopipe.rules._calls import no_fewer_calls
from autopipe.rules._obligations import ErrorsSurface, LittleMoreAtOnce, NoNewReadAhead, OrderUnseen


@rule(keeps=Keeps.SEQUENCE, phase=Phase.OPEN)
def map_after_interleave(node: Node) -> Rewrite | None:
    """interleave(x -> d(x).map(f))  ->  interleave(x -> d(x)) | map(f)

    No other rule sees what a stage does with each element of the datasets that it opens. A map at the end of these
    datasets does the same after the stage, in the same order, since it gives one element for each. What it uses of x is
    passed along with each element. The same is done with the datasets of a ``flat_map``, and of a ``group_by_window``.
    It needs: an f that does work, which may happen later unobserved, no ``ignore_errors`` downstream that its errors
    may reach, and, where datasets are read at once, inputs of f that take little more memory than its results, in whose
    place they wait.
    """
    match node:
        case FlatMap(fn=fn) | Interleave(fn=fn) | GroupByWindow(reduce_func=fn):
            parts = split_last_maps(fn)
        case _:
            return None
    if parts is None:
        return None
    opening, maps = parts
    reading = node if isinstance(node, Interleave) and node.num_parallel_calls is not None else None
    source = opened = _opened(node, opening)
    provided: list[Obligation] = []
    for each in maps:
        source = mapped = _map(source, each, reading)
        provided += [OrderUnseen(mapped.fn), ErrorsSurface(mapped.fn)]
        if reading is None and mapped.num_parallel_calls is not None:
            provided.append(NoNewReadAhead(mapped))
    if reading is not None:
        held = held_of_a_cycle(reading, datasets_in_turn(reading))
        provided.append(LittleMoreAtOnce(opened, than=source, count=held))
    return Rewrite(source, tuple(provided))


def _opened(node: FlatMap | GroupByWindow | Interleave, opening: Function) -> Node:
    if isinstance(node, GroupByWindow):
        return replace(node, reduce_func=opening)
    return replace(node, fn=opening)


def _at_once(reading: Interleave | None) -> int:
    """Return how many calls there are at once: at most one for each dataset that is read in turn."""
    if reading is None or reading.num_parallel_calls in (None, AUTOTUNE):
        return AUTOTUNE
    return min(reading.num_parallel_calls, datasets_in_turn(reading))


def _map(source: Node, inner: LastMap, reading: Interleave | None) -> Map:
    """Return the map as it is after the stage.

    It is parallel if its datasets were read at once, or if TensorFlow would make it parallel by itself, whose order an
    option might then free. An order that was free only within each dataset is kept as written.
    """
    calls, threads_of_own = inner.num_parallel_calls, inner.use_unbounded_threadpool
    if calls is None and (reading is not None or replace(effects(inner.fn), file_reads=()).pure):
        calls = no_fewer_calls([AUTOTUNE, _at_once(reading)])
        # An interleave has a thread for each call; a map has only one per processor unless it asks for its own threads.
        threads_of_own = threads_of_own or calls != AUTOTUNE
    return Map(
        input=source,
        fn=inner.fn,
        num_parallel_calls=calls,
        deterministic=inner.deterministic or (reading.deterministic if reading else None),
        use_unbounded_threadpool=threads_of_own,
        use_inter_op_parallelism=inner.use_inter_op_parallelism,
    )
