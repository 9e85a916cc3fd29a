from autopipe.pipeline.ir import Batch, Node, Rebatch, Unbatch
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import AsWellKnown, HoldsFewWhole, NoErrorIsIgnored, OneShape


@rule(keeps=Keeps.SEQUENCE)
def rebatch(node: Node) -> Rewrite | None:
    """unbatch | batch(b)  ->  rebatch(b)

    Batches of another size are cut from the old ones in slices, not element by element. It needs: dense elements of
    one known shape, a type and a number of elements that stay as well known (TensorFlow forgets the number where the
    old batches had a fixed size), no ``ignore_errors`` downstream (a bad batch would take its neighbours with it), and
    downstream nothing that holds some batches and not their neighbours, as a shuffle or what comes after a filter may,
    where the old ones are larger: each slice holds the whole old batch.
    """  # noqa: D402  it names a stage, not this function
    match node:
        case Batch(input=Unbatch() as unbatch):
            after = Rebatch(
                input=unbatch.input, batch_size=node.batch_size, drop_remainder=node.drop_remainder, name=node.name
            )
            safe = (OneShape(unbatch), AsWellKnown(after, node), NoErrorIsIgnored())
            return Rewrite(after, provided=(*safe, HoldsFewWhole(unbatch.input, node)))
    return None
