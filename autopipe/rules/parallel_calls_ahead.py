from dataclasses import replace

from autopipe.functions.analysis.effects import effects
from autopipe.functions.parts.draws import draws_in_order
from autopipe.pipeline import trees
from autopipe.pipeline.ir import Batch, Map, Node, PaddedBatch
from autopipe.pipeline.signature import signature
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._obligations import Faster, FewAtOnce, NotCachedYet, OrderUnseen, ReadAheadUnseen

_MOST_CALLS, _FEWEST_CALLS = 32, 8
_BYTES_AT_ONCE = 8 * 2**20


@rule(keeps=Keeps.SEQUENCE, phase=Phase.OVERLAP)
def parallel_calls_ahead(node: Node) -> Rewrite | None:
    """map(f)  ->  map(f, num_parallel_calls=32)

    AUTOTUNE makes no more calls at once than there are cores, so a core has nothing to do while the thread that hands
    out the next call wakes up, or while a result waits for a slower one before it. With calls to spare there is always
    one. For large results there are fewer calls, down to eight. Results are put back in order. It needs: calls on
    single elements whose results no cache keeps, results that take little memory, nothing in f from which the order of
    calls could be seen, nothing upstream that could be seen to run ahead, and a measured gain. A number of calls that
    the author chose stays.
    """
    match node:
        case Map(num_parallel_calls=None | -1, synchronous=False, use_unbounded_threadpool=False) if _is_eligible(node):
            calls = _calls(node)
            ahead = replace(node, num_parallel_calls=calls)
            unseen = (OrderUnseen(node.fn), ReadAheadUnseen(node.input))
            worth = (NotCachedYet(node), *unseen, FewAtOnce(node, calls), Faster(node, ahead, over=node.input))
            return Rewrite(ahead, worth, keeps=Keeps.TRAINING if node.num_parallel_calls is None else None)
    return None


def _calls(node: Map) -> int:
    """Return how many calls to make at once: those of large results take long, and few keep all cores busy."""
    size = signature(node).element_bytes
    return max(_FEWEST_CALLS, min(_BYTES_AT_ONCE // size, _MOST_CALLS)) if size else _MOST_CALLS


def _is_eligible(node: Map) -> bool:
    """Return whether calls may be made out of order, and are made for single elements: a batch keeps a core busy.

    A sequential map with state is eligible at once; other maps, once ``parallel_map`` has made them parallel.
    """
    if draws_in_order(node.fn) or any(isinstance(each, Batch | PaddedBatch) for each in trees.walk(node.input)):
        return False
    found = effects(node.fn)
    return node.num_parallel_calls is not None or bool(found.unseeded_random or found.variable_reads)
