"""The rule named as this file."""

from autopipe.functions.known.effects import effects
from autopipe.pipeline.ir import Map, Node, Shuffle
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import WHOLE_EPOCH, CallsUnseen, ErrorsSurface, NotMuchLarger


@rule(keeps=Keeps.SEQUENCE)
def shuffle_before_map(node: Node) -> Rewrite | None:
    """map(f) | shuffle(n)  ->  shuffle(n) | map(f)

    The buffer holds what goes into f, and the first element waits for n reads instead of n calls of f. A shuffle
    picks places in its buffer and never looks at elements, so the order is the same, also with a seed. It takes:
    nothing in f that could be seen to run in another order (draws without a seed are others then, which needs
    keeps="training"), no ``ignore_errors`` downstream, and a buffer that takes little more memory
    with what goes into f, or less.
    """
    match node:
        case Shuffle(input=Map(preserve_cardinality=True) as mapped):
            held = int(min(node.capacity, WHOLE_EPOCH))
            size = NotMuchLarger(mapped.input, than=mapped, count=held)
            provided = (CallsUnseen(mapped.fn), ErrorsSurface(mapped.fn), size)
            keeps = Keeps.TRAINING if effects(mapped.fn).unseeded_random else None
            return Rewrite(mapped.on(node.on(mapped.input)), provided, keeps)
    return None
