from dataclasses import replace

from autopipe.environment import processors
from autopipe.functions.analysis.effects import effects
from autopipe.pipeline.ir import AUTOTUNE, Interleave, Node
from autopipe.rules._ahead import held_of_a_cycle
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._obligations import ErrorsSurface, Faster, FewAtOnce, OrderUnseen, ReadAheadUnseen


@rule(keeps=Keeps.SEQUENCE, phase=Phase.OVERLAP)
def parallel_interleave(node: Node) -> Rewrite | None:
    """interleave(f)  ->  interleave(f, num_parallel_calls=AUTOTUNE)

    The datasets that take turns are read at once, and their elements are put back in turn: with the same cycle and
    block length, the sequence is the same. Where no cycle length was given, it is the number of processors, as
    TensorFlow takes it. It needs: an f that can run ahead unobserved, as can all that is upstream, no ``ignore_errors``
    downstream, elements that take little memory, and a measured gain, since handing over elements in memory costs more
    than reading them.
    """
    match node:
        case Interleave(num_parallel_calls=None):
            cycle = processors() if node.cycle_length == AUTOTUNE else node.cycle_length
            # Otherwise options.deterministic=False, which does not affect a sequential interleave, would free its
            # order.
            after = replace(node, num_parallel_calls=AUTOTUNE, cycle_length=cycle, deterministic=True)
            unseen = (OrderUnseen(node.fn), ReadAheadUnseen(node.input), ErrorsSurface(node.fn))
            keeps = Keeps.TRAINING if effects(node.fn).unseeded_random else None
            measured = (FewAtOnce(node, held_of_a_cycle(node, cycle)), Faster(node, after, over=node.input))
            return Rewrite(after, (*unseen, *measured), keeps)
    return None
