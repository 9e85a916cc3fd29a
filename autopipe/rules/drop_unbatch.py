from autopipe.pipeline.ir import Batch, Node, Unbatch
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import NoErrorIsIgnored, NoOrderDrawnEarly, OneShape, ReadAheadUnseen


@rule(keeps=Keeps.SEQUENCE)
def drop_unbatch(node: Node) -> Rewrite | None:
    """batch(b) | unbatch  ->  nothing

    Elements that are stacked and taken apart again are what they were, each copied twice. It needs: dense elements of
    one known shape, since a batch of others fails or pads, a batch that leaves no remainder out, no ``ignore_errors``
    downstream (a bad element took its batch with it, and would no longer), and nothing upstream that could be seen to
    be read to another place: whole batches are taken no longer.
    """
    match node:
        case Unbatch(input=Batch(drop_remainder=False) as batch):
            unseen = (ReadAheadUnseen(batch.input), NoOrderDrawnEarly(batch.input))
            return Rewrite(batch.input, provided=(OneShape(batch.input), NoErrorIsIgnored(), *unseen))
    return None
