from autopipe.functions.analysis.effects import effects
from autopipe.functions.analysis.rounding import rounds_alike
from autopipe.functions.joined.predicate import ask_before
from autopipe.functions.regrouped import fused_op
from autopipe.pipeline.ir import Filter, Map, Node
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import CallsUnseen, Faster, NoErrorIsLost, Pure, RoundingUnseen


@rule(keeps=Keeps.SEQUENCE)
def filter_before_map(node: Node) -> Rewrite | None:
    """map(f) | filter(p)  ->  filter(p of f) | map(f)

    Elements that p drops need not go through f. What p looks at is computed from the input of f. Where f only passes it
    on, that costs nothing; otherwise that part of f runs twice for elements that stay. The same elements stay, in the
    same order. Where p looks at a sum that TensorFlow may take in another order, an element right at the threshold may
    be judged differently, which needs keeps="training". It needs: a p, and the part of f it looks at, that only
    compute; an f that can run less often unobserved; no error that would be lost; and a measured gain, which depends on
    how many elements p drops.
    """
    match node:
        case Filter(input=Map(synchronous=False) as mapped):
            asked = ask_before(node.predicate, mapped.fn)
            after = mapped.on(Filter(input=mapped.input, predicate=asked, name=node.name))
            unseen = (Pure(asked), CallsUnseen(mapped.fn), NoErrorIsLost(mapped.fn))
            certain = rounds_alike(asked) and not effects(mapped.fn).unseeded_random
            joined = None if rounds_alike(asked, node.predicate) else fused_op(asked.concrete.graph)
            rounding = (RoundingUnseen(joined),) if joined else ()
            keeps = None if certain else Keeps.TRAINING
            return Rewrite(after, (*unseen, *rounding, Faster(node, after, over=mapped.input)), keeps)
    return None
