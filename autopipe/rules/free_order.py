from dataclasses import replace

from autopipe.pipeline.ir import Interleave, Map, Node, Shuffle
from autopipe.pipeline.order import stages_of_free_order
from autopipe.pipeline.trees import substitute
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._obligations import QuickOnesUnseen, Reshuffles


@rule(keeps=Keeps.ELEMENTS, phase=Phase.OVERLAP)
def free_order(node: Node) -> Rewrite | None:
    """map(f, calls) .. shuffle  ->  map(f, calls, deterministic=False) .. shuffle

    Results of calls that run at once are handed on in order, so a slow element holds up those behind it. Where an
    unseeded shuffle follows, and nothing between depends on the order, elements may as well come when they are ready:
    the same elements come in every epoch, in an order that was random already. It needs: a shuffle that reshuffles in
    each epoch, and that all elements are taken, or all are mixed before any is. Otherwise, as with datasets without
    end, those that are made quickly would be taken more often.
    """
    match node:
        case Shuffle(seeded=False, mixes=True):
            for stage in stages_of_free_order(node):
                if isinstance(stage, Map | Interleave) and stage.num_parallel_calls and stage.deterministic is None:
                    after = substitute(node, stage, replace(stage, deterministic=False))
                    return Rewrite(after, provided=(Reshuffles(node), QuickOnesUnseen(stage, node)))
    return None
