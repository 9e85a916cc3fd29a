from autopipe.pipeline.ir import Batch, Map, Node, Prefetch, Repeat, Shard, Shuffle, Skip, Take
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import DrawsNoLess, ReadAheadUnseen


@rule(keeps=Keeps.SEQUENCE)
def drop_idle_stage(node: Node) -> Rewrite | None:
    """take(-1)  ->  nothing

    ``take(-1)``, ``skip(0)``, ``repeat(1)``, ``shard(1, 0)``, ``shuffle(1)`` and ``prefetch(0)`` pass every element on
    unchanged, at the cost of a call each, and hide neighbouring stages from the rules. So does a prefetch between a
    parallel map, which runs ahead by itself, and a shuffle or batch. It needs: mostly nothing. For such a prefetch, in
    whose place the end may read ahead, and for a ``prefetch(0)`` at the end, which keeps TensorFlow from reading ahead
    by itself, it must not be observable that elements are made early. For ``repeat(1)`` after a seeded shuffle, no
    option may keep TensorFlow from dropping it by itself, since it draws one more order.
    """
    match node:
        case Shuffle(input=Prefetch(input=mapped)) | Batch(input=Prefetch(input=mapped)) if _runs_ahead(mapped):
            return Rewrite(node.on(mapped), provided=(ReadAheadUnseen(mapped),))
        case Prefetch(buffer_size=0):
            return Rewrite(node.input, provided=(ReadAheadUnseen(node.input),))
        case Repeat(count=1):
            return Rewrite(node.input, provided=(DrawsNoLess(node),))
        case Take(takes_all=True) | Skip(count=0) | Shard(num_shards=1) | Shuffle(mixes=False):
            return Rewrite(node.input)
    return None


def _runs_ahead(node: Node) -> bool:
    return isinstance(node, Map) and node.num_parallel_calls is not None
