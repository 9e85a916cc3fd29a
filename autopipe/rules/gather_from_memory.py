from dataclasses import replace

from autopipe.functions.joined.gather import gather
from autopipe.pipeline.ir import Batch, Map, Node, Repeat, TensorSlices, Zip
from autopipe.pipeline.positions import below_positions, columns, range_of
from autopipe.pipeline.signature import signature
from autopipe.pipeline.trees import substitute
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._obligations import ArraysOnHost, Faster, NoOrderDrawnEarly, OneShape


@rule(keeps=Keeps.SEQUENCE, phase=Phase.GATHER)
def gather_from_memory(node: Node) -> Rewrite | None:
    """tensor_slices | shuffle .. | batch(b)  ->  range | shuffle .. | batch(b) | map(gather)

    Positions are shuffled and batched instead of rows, and the rows of a batch are gathered from each array at once,
    also where arrays, or ranges, are zipped. What stands between (``shuffle``, ``repeat``, ``take``, ``skip``,
    ``shard``, ``prefetch``) never looks at elements, so the same rows come in the same order, also with a seed. The
    arrays are not copied. It needs: dense arrays that are in the memory of the host (or fit there once more), no order
    that is drawn from a seed while an iterator reads on (the map reads ahead of its batches), and a measured gain,
    which grows with the number of arrays and with b.
    """
    if not isinstance(node, Batch):
        return None
    source = below_positions(node.input)
    rows = columns(source) if isinstance(source, TensorSlices | Zip) else None
    if rows is None:
        return Rewrite(node, provided=(OneShape(source),)) if isinstance(source, TensorSlices) else None
    count = signature(source).cardinality
    if not count:
        return None
    positions = range_of(count, source.name)
    # The copying becomes the work of the map, and so the calls at once that the author gave to the batch.
    batches = replace(node, input=positions, num_parallel_calls=None, deterministic=None)
    fn = gather(rows, signature(batches).element_spec, signature(node).element_spec)
    after = Map(input=batches, fn=fn, num_parallel_calls=node.num_parallel_calls, deterministic=node.deterministic)
    faster = Faster(node.on(Repeat(input=source)), after.on(batches.on(Repeat(input=positions))), over=None)
    picked = batches.on(substitute(node.input, source, positions))
    drawn = NoOrderDrawnEarly(node.input)
    return Rewrite(after.on(picked), provided=(OneShape(source), ArraysOnHost(source), drawn, faster))
