"""The rule named as this file."""

from dataclasses import replace

from autopipe.pipeline.ir import Batch, Node, Take
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._obligations import ErrorsEndEpoch

_MOST_ELEMENTS = 2**63 - 1


@rule(keeps=Keeps.SEQUENCE, phase=Phase.GATHER)
def take_before_batch(node: Node) -> Rewrite | None:
    """batch(b) | take(n)  ->  take(n * b) | batch(b)

    The first n batches are the first n * b elements. Nothing after them is stacked ahead then, and a map before them
    need not run for it; what is cached of that map is read to its end. It takes: no ``ignore_errors`` downstream (a
    batch that fails was counted as one).
    """
    match node:
        case Take(input=Batch() as batch, count=count) if 0 < count * batch.batch_size <= _MOST_ELEMENTS:
            fewer = replace(node, input=batch.input, count=count * batch.batch_size)
            return Rewrite(batch.on(fewer), provided=(ErrorsEndEpoch(),))
    return None
