from dataclasses import replace

from autopipe.pipeline.ir import Interleave, Map, Node, Shuffle
from autopipe.pipeline.order import stages_of_free_order
from autopipe.pipeline.trees import substitute
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._obligations import QuickOnesUnseen, Reshuffles


@rule(keeps=Keeps.ELEMENTS, phase=Phase.OVERLAP)
def free_order(node: Node) -> Rewrite | None:
    """map(f, calls) .. shuffle  ->  map(f, calls, deterministic=False) .. shuffle

    Calls that run at once are handed over in order, so a slow element holds up those behind it. Where an unseeded
    shuffle follows, with nothing between that makes something of the order, elements may as well come when they are
    ready: the same elements come in every epoch, in an order that was random already. It needs: a shuffle that
    reshuffles in each epoch, and that all elements are taken, or mixed, before some are: of others, or of datasets
    without end, there would be more of those that are made quickly.
    """
    match node:
        case Shuffle(seeded=False, mixes=True):
            for stage in stages_of_free_order(node):
                if isinstance(stage, Map | Interleave) and stage.num_parallel_calls and stage.deterministic is None:
                    after = substitute(node, stage, replace(stage, deterministic=False))
                    return Rewrite(after, provided=(Reshuffles(node), QuickOnesUnseen(stage, node)))
    return None
