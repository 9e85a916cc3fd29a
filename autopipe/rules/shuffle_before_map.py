from autopipe.functions.analysis.effects import effects
from autopipe.pipeline.ir import Node
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._mixing import mixing, repeats_a_seed, shuffled_map
from autopipe.rules._obligations import WHOLE_EPOCH, CallsUnseen, ErrorsSurface, NotMuchLarger, ReadAheadUnseen


@rule(keeps=Keeps.SEQUENCE)
def shuffle_before_map(node: Node) -> Rewrite | None:
    """map(f) | shuffle(n)  ->  shuffle(n) | map(f)

    The buffer holds what goes into f, and the first element waits for n reads instead of n calls of f. A shuffle
    picks places in its buffer and never looks at elements, so the order is the same, also with a seed. Where a repeat
    comes right after the shuffle, f goes after both: as one stage, they fill the buffer for the next epoch while this
    one still trains. It needs: nothing in f that could be seen to run in another order (draws without a seed are others
    then, which needs keeps="training"), no ``ignore_errors`` downstream, a buffer that takes little more memory with
    what goes into f, or less, and after a repeat of a seeded shuffle, that elements can be made early unobserved.
    """
    found = shuffled_map(node)
    if found is None:
        return None
    shuffle, mapped = found
    size = NotMuchLarger(mapped.input, than=mapped, count=int(min(shuffle.capacity, WHOLE_EPOCH)))
    ahead = (ReadAheadUnseen(node),) if repeats_a_seed(node) else ()
    keeps = Keeps.TRAINING if effects(mapped.fn).unseeded_random else None
    provided = (CallsUnseen(mapped.fn), ErrorsSurface(mapped.fn), *ahead, size)
    return Rewrite(mapped.on(mixing(node, mapped.input)), provided, keeps)
