from dataclasses import replace

from autopipe.functions.parts.cut import IllegalCutError
from autopipe.functions.parts.draws import draw_first, draws_in_order
from autopipe.pipeline.ir import AUTOTUNE, Map, Node
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._obligations import DrawsApart, NotSlower, OrderUnseen, ReadAheadUnseen


@rule(keeps=Keeps.SEQUENCE, phase=Phase.OVERLAP)
def parallel_after_draws(node: Node) -> Rewrite | None:
    """map(f)  ->  map(draws of f) | map(rest of f, num_parallel_calls=AUTOTUNE)

    A function that draws from a seed or from the generator of a Keras layer must draw in the order of its elements,
    and so TensorFlow calls it one element at a time. The draws are cheap; the work that uses them need not wait.
    Every element gets the number it got before. It needs: draws that can be separated from the rest, a rest that only
    computes, draws that can run ahead unobserved (a generator may be shared, so that needs keeps="training"), and no
    measured loss.
    """
    match node:
        case Map(num_parallel_calls=None, synchronous=False) if draws_in_order(node.fn):
            try:
                drawing, using = draw_first(node.fn)
            except IllegalCutError:
                return Rewrite(node, provided=(DrawsApart(node.fn),))
            draws = replace(node, fn=drawing, synchronous=True)
            rest = replace(node, fn=using, input=draws, num_parallel_calls=AUTOTUNE)
            not_slower = NotSlower(node, rest, over=node.input)
            return Rewrite(rest, (DrawsApart(node.fn), OrderUnseen(using), ReadAheadUnseen(draws), not_slower))
    return None
