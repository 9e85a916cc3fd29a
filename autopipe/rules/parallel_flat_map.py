from autopipe.functions.analysis.effects import effects
from autopipe.pipeline.ir import FlatMap, Node
from autopipe.rules._ahead import HELD_IN_TURN, in_turn
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._obligations import ErrorsSurface, Faster, FewAtOnce, OrderUnseen, ReadAheadUnseen


@rule(keeps=Keeps.SEQUENCE, phase=Phase.OVERLAP)
def parallel_flat_map(node: Node) -> Rewrite | None:
    """flat_map(f)  ->  interleave(f, cycle_length=1, num_parallel_calls=AUTOTUNE)

    One dataset is read to its end before the next begins, so the sequence is the same; meanwhile the next ones are
    opened and their first elements read. It needs: an f that reads files (otherwise there is nothing to wait for) and
    can run ahead unobserved, as can all that is upstream, no ``ignore_errors`` downstream, elements that take little
    memory, and a measured gain.
    """
    match node:
        case FlatMap(fn=fn) if effects(fn).file_reads:
            after = in_turn(node.input, fn, node.name)
            unseen = (OrderUnseen(fn), ReadAheadUnseen(node.input), ErrorsSurface(fn))
            measured = (FewAtOnce(node, HELD_IN_TURN), Faster(node, after, over=node.input))
            return Rewrite(after, (*unseen, *measured))
    return None
