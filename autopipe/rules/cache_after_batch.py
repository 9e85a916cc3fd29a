from autopipe.pipeline.ir import Batch, Cache, Node, PaddedBatch
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import ErrorsEndEpoch, FitsMemory, InMemory, OneReader, ReadToItsEnd


@rule(keeps=Keeps.SEQUENCE)
def cache_after_batch(node: Node) -> Rewrite | None:
    """cache | batch(b)  ->  batch(b) | cache

    If nothing mixes elements between a cache and a batch, as in validation data, every epoch stacks the same batches
    anew, element by element, with a copy of each. A cache of the batches hands each out whole, without a copy. It
    needs: no other reader of the cache (it would find batches instead of elements), no ``ignore_errors`` downstream, a
    memory cache (a file may hold elements already), no stage downstream that stops before the last batch was asked for
    (a smaller last batch ends the elements, but not yet the batches), and batches that fit, with their padding.
    """
    match node:
        case Batch(input=Cache() as cache) | PaddedBatch(input=Cache() as cache):
            batched = node.on(cache.input)
            alone = OneReader(cache, "both readers get elements from it")
            filled = (InMemory(cache), ReadToItsEnd(batched), FitsMemory(batched))
            return Rewrite(cache.on(batched), (alone, ErrorsEndEpoch(), *filled))
    return None
