from dataclasses import replace
from itertools import takewhile

from autopipe.functions.joined.keyed import is_stored, on_keyed, stored_key, with_key
from autopipe.pipeline import trees
from autopipe.pipeline.ir import Cache, GroupByWindow, Map, Node, Shuffle
from autopipe.pipeline.signature import signature
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._caching import before_mixing
from autopipe.rules._obligations import (
    WHOLE_EPOCH,
    Deterministic,
    ErrorsSurface,
    FitsMemory,
    InMemory,
    NotMuchLarger,
    OneReader,
)


@rule(keeps=Keeps.SEQUENCE)
def cache_keys(node: Node) -> Rewrite | None:
    """cache | group_by_window(key)  ->  map(with its key) | cache | group_by_window(stored key)

    ``group_by_window``, and with it ``bucket_by_sequence_length``, computes the keys of elements one after the other,
    in one thread, which for cached elements is most of the work. Stored in the cache beside its element, a key is
    computed once. A shuffle or repeat may stand between: these do not look at elements. It needs: a key that is the
    same for the same element each time, no other reader of the cache (it would hold something else), no
    ``ignore_errors`` downstream, a memory cache (a file may hold elements without keys), and room for the keys.
    """
    if not isinstance(node, GroupByWindow) or is_stored(node.key_func):
        return None
    cache = before_mixing(node.input)
    if not isinstance(cache, Cache):
        return None
    key = node.key_func
    paired = Map(input=cache.input, fn=with_key(key))
    source = trees.substitute(node.input, cache, cache.on(paired))
    grouped = replace(node, input=source, key_func=stored_key(key), reduce_func=on_keyed(node.reduce_func, key))
    since = takewhile(lambda each: each is not cache, trees.walk(node.input))
    shuffled = min(sum(_held(each) for each in since if isinstance(each, Shuffle)), WHOLE_EPOCH)
    alone = OneReader(cache, "both readers get the same from it")
    held = (FitsMemory(paired), NotMuchLarger(paired, than=cache.input, count=shuffled))
    return Rewrite(grouped, (Deterministic(key), alone, ErrorsSurface(key), InMemory(cache), *held))


def _held(shuffle: Shuffle) -> int:
    """Return how many elements a shuffle holds at most."""
    there = signature(shuffle.input)
    return int(min(shuffle.capacity, there.cardinality if there.is_counted else WHOLE_EPOCH))
