from autopipe.pipeline.ir import Node, Take
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._counted import counted_in_elements
from autopipe.rules._obligations import ErrorsEndEpoch


@rule(keeps=Keeps.SEQUENCE, phase=Phase.GATHER)
def take_before_batch(node: Node) -> Rewrite | None:
    """batch(b) | take(n)  ->  take(n * b) | batch(b)

    The first n batches are the first n * b elements. Nothing after them is then stacked ahead, and no map before them
    runs for it; a cache of such a map is read to its end. It needs: no ``ignore_errors`` downstream (a batch that fails
    was counted as one).
    """
    counted = counted_in_elements(node) if isinstance(node, Take) else None
    if counted is None:
        return None
    _, result = counted
    return Rewrite(result, provided=(ErrorsEndEpoch(),))
