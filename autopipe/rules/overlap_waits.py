from dataclasses import replace

from autopipe.functions.analysis.effects import effects
from autopipe.functions.function import Function
from autopipe.functions.parts.draws import draws_in_order
from autopipe.pipeline.ir import AUTOTUNE, Map, Node
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._obligations import Faster, FewAtOnce, OrderUnseen, ReadAheadUnseen, Waits

_CALLS = 64


@rule(keeps=Keeps.SEQUENCE, phase=Phase.OVERLAP)
def overlap_waits(node: Node) -> Rewrite | None:
    """map(f)  ->  map(f, num_parallel_calls=64, use_unbounded_threadpool=True)

    A call that waits, as for an object of remote storage, needs a thread and no core. TensorFlow runs the calls of all
    maps on as many threads as there are cores, whatever number they ask for, and AUTOTUNE asks for no more than that.
    With threads of its own many calls wait at once, and their results are put back in order. It needs: calls that wait
    for most of their time, results that take little memory, nothing in f from which the order of calls could be seen,
    nothing upstream that could be seen to run ahead, and a measured gain. A number of calls that the author chose
    stays.
    """
    match node:
        case Map(num_parallel_calls=None | -1, synchronous=False, use_unbounded_threadpool=False) if _may_wait(node.fn):
            usual = replace(node, num_parallel_calls=AUTOTUNE)
            wide = replace(node, num_parallel_calls=_CALLS, use_unbounded_threadpool=True)
            unseen = (OrderUnseen(node.fn), ReadAheadUnseen(node.input))
            return Rewrite(wide, (*unseen, Waits(node), FewAtOnce(node, _CALLS), Faster(usual, wide, over=node.input)))
    return None


def _may_wait(fn: Function) -> bool:
    """Return whether a function may wait for something, such as a file; arithmetic never waits."""
    found = effects(fn)
    return bool(found.file_reads or found.runs_python) and not draws_in_order(fn)
