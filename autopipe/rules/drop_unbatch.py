from autopipe.pipeline.ir import Batch, Node, Unbatch
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import NoErrorIsIgnored, NoOrderDrawnEarly, OneShape, ReadAheadUnseen


@rule(keeps=Keeps.SEQUENCE)
def drop_unbatch(node: Node) -> Rewrite | None:
    """batch(b) | unbatch  ->  nothing

    Stacking elements and taking them apart again changes nothing, and copies each twice. It needs: dense elements of
    one known shape, since a batch of others fails or pads, a batch that leaves no remainder out, no ``ignore_errors``
    downstream (a bad element took its batch with it, and would no longer), and nothing upstream that shows how far it
    was read: elements are no longer taken in whole batches.
    """
    match node:
        case Unbatch(input=Batch(drop_remainder=False) as batch):
            unseen = (ReadAheadUnseen(batch.input), NoOrderDrawnEarly(batch.input))
            return Rewrite(batch.input, provided=(OneShape(batch.input), NoErrorIsIgnored(), *unseen))
    return None
