from autopipe.pipeline.ir import Node, Skip
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._counted import counted_in_elements
from autopipe.rules._obligations import NoErrorIsIgnored, OneShape


@rule(keeps=Keeps.SEQUENCE)
def skip_before_batch(node: Node) -> Rewrite | None:
    """batch(b) | skip(n)  ->  skip(n * b) | batch(b)

    The first n batches are the first n * b elements, so they need not be stacked to be left out, and a map before
    them need not run. It needs: elements of one known shape, since a batch of others fails and that error would be
    lost, and no ``ignore_errors`` downstream (a batch that fails was not counted).
    """
    counted = counted_in_elements(node) if isinstance(node, Skip) else None
    if counted is None:
        return None
    batch, result = counted
    return Rewrite(result, provided=(OneShape(batch.input), NoErrorIsIgnored()))
