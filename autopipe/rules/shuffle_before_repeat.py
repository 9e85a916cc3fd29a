from autopipe.pipeline.ir import Node, Repeat, Shuffle
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import RepeatedAtOnce, Reshuffles


@rule(keeps=Keeps.TRAINING)
def shuffle_before_repeat(node: Node) -> Rewrite | None:
    """repeat | shuffle(n)  ->  shuffle(n) | repeat

    A shuffle after a repeat mixes epochs: some elements come twice before others come once. Shuffled first, every
    epoch holds every element exactly once, in a new order each time. The epochs become sharper, which is why this
    needs keeps="training"; a seed asks for the exact order and so refuses it. It needs: a shuffle that reshuffles in
    each epoch, and no option that keeps TensorFlow from fusing the two into one stage, since each epoch would then wait
    for the buffer to fill.
    """
    match node:
        case Shuffle(input=Repeat() as repeat):
            return Rewrite(repeat.on(node.on(repeat.input)), provided=(Reshuffles(node), RepeatedAtOnce()))
    return None
