from autopipe.functions.analysis.effects import effects
from autopipe.pipeline.ir import Map, Node, Shard, Skip, Take
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import CallsUnseen, ErrorsSurface, NoErrorIsLost


@rule(keeps=Keeps.SEQUENCE)
def select_before_map(node: Node) -> Rewrite | None:
    """map(f) | shard(n, i)  ->  shard(n, i) | map(f)

    What ``shard``, ``skip`` or ``take`` leaves out need not be computed first. They count elements and never look at
    them, so those that stay are the same, in the same order. It needs: nothing in f that could be seen to run on fewer
    elements (draws without a seed are then others, which needs keeps="training"), and no error that must surface: one
    in an element that is left out no longer can.
    """
    match node:
        case Take() | Skip() | Shard() if isinstance(node.input, Map) and node.input.preserve_cardinality:
            mapped = node.input
            errors = ErrorsSurface(mapped.fn) if isinstance(node, Take) else NoErrorIsLost(mapped.fn)
            keeps = Keeps.TRAINING if effects(mapped.fn).unseeded_random else None
            return Rewrite(mapped.on(node.on(mapped.input)), (CallsUnseen(mapped.fn), errors), keeps)
    return None
