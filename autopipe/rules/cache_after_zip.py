from autopipe.pipeline import trees
from autopipe.pipeline.ir import Cache, Node, SharedCache, Zip
from autopipe.pipeline.signature import signature
from autopipe.rules._base import Keeps, Obligation, Rewrite, rule
from autopipe.rules._obligations import (
    ErrorsEndEpoch,
    FitsMemory,
    InMemory,
    NotMuchLarger,
    OneReader,
    ReadToItsEnd,
    SameEveryEpoch,
)


@rule(keeps=Keeps.SEQUENCE)
def cache_after_zip(node: Node) -> Rewrite | None:
    """zip(a | cache, b | cache)  ->  zip(a, b) | cache

    With a cache on each side of a zip, elements are paired anew in every epoch, and no later stage is cached: images
    and captions that are zipped and batched are copied into batches each time. One cache after the zip holds the same,
    and may then move after the batch. A side without a cache is cached too if it gives the same in every epoch and is
    small beside the others. It needs: caches with the same known number of elements, all taken by the zip (a cache that
    is never full is made anew in every epoch), no other reader of them, no ``ignore_errors`` downstream, memory caches
    (a file may hold elements already), and nothing downstream that stops early.
    """
    if not isinstance(node, Zip):
        return None
    caches = [part for part in node.parts if isinstance(part, Cache)]
    others = [part for part in node.parts if not isinstance(part, Cache)]
    number = signature(node).cardinality
    filled = [*caches, *filter(_holds_what_was_drawn, others)]
    if not caches or number < 0 or any(signature(part).cardinality != number for part in filled):
        return None
    zipped = node.on(*(part.input if isinstance(part, Cache) else part for part in node.parts))
    cached_now = Zip(parts=tuple(each.input for each in caches), structure=tuple(range(len(caches))))
    provided: tuple[Obligation, ...] = (
        *(OneReader(each, "both readers get its elements from it") for each in caches),
        *map(InMemory, caches),
        *map(SameEveryEpoch, others),
        ErrorsEndEpoch(),
        ReadToItsEnd(caches[0].on(zipped), zipped),
        NotMuchLarger(zipped, than=cached_now, count=number),
        FitsMemory(zipped),
    )
    return Rewrite(caches[0].on(zipped), provided)


def _holds_what_was_drawn(side: Node) -> bool:
    return any(isinstance(node, SharedCache) for node in trees.walk(side))
