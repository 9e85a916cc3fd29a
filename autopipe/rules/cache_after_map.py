"""The rule named as this file."""

from autopipe.pipeline.ir import Cache, Map, Node, Repeat, Shuffle
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import (
    WHOLE_EPOCH,
    Deterministic,
    ErrorsSurface,
    FitsMemory,
    InMemory,
    NotMuchLarger,
)


@rule(keeps=Keeps.SEQUENCE)
def cache_after_map(node: Node) -> Rewrite | None:
    """cache | map(f)  ->  map(f) | cache

    A cache below a map stores what goes into f, so f runs again on every element in every epoch. If f gives the
    same result for the same element each time, storing its results gives the same sequence, and f runs once. A
    shuffle or repeat may stand between: these do not look at elements. It takes: f deterministic, no
    ``ignore_errors`` downstream, a memory cache (a file may hold elements of the old place), and results that fit,
    which are no larger than what goes into f where a shuffle holds them too.
    """
    if not isinstance(node, Map):
        return None
    below, passed = _mixing(node.input)
    match below:
        case Cache() as cache:
            mapped = node.on(cache.input)
            result: Node = cache.on(mapped)
            for stage in reversed(passed):
                result = stage.on(result)
            provided = (Deterministic(node.fn), ErrorsSurface(node.fn), InMemory(cache), FitsMemory(mapped))
            held = (NotMuchLarger(mapped, than=cache.input, count=WHOLE_EPOCH),) if passed else ()
            return Rewrite(result, (*provided, *held))
    return None


def _mixing(node: Node) -> tuple[Node, list[Node]]:
    """Return what elements come from, and the stages since then that only mix or repeat them."""
    passed: list[Node] = []
    while isinstance(node, Shuffle | Repeat):
        passed.append(node)
        node = node.input
    return node, passed
