"""A shuffle after a map, and the repeat right after it: TensorFlow makes one stage of the shuffle and the repeat."""

from autopipe.pipeline.ir import Map, Node, Repeat, Shuffle
from autopipe.pipeline.seeds import is_reseeded

__all__ = ["mixing", "repeats_a_seed", "shuffled_map"]


def shuffled_map(node: Node) -> tuple[Shuffle, Map] | None:
    """Return the shuffle that a stage is, or that it repeats, and the map before the shuffle."""
    match node:
        case Shuffle(input=Map(preserve_cardinality=True) as mapped):
            return node, mapped
        case Repeat(input=Shuffle() as shuffle):
            return shuffled_map(shuffle)
    return None


def mixing(node: Node, source: Node) -> Node:
    """Return a shuffle, with the repeat after it if there is one, over another source."""
    return node.on(node.input.on(source)) if isinstance(node, Repeat) else node.on(source)


def repeats_a_seed(node: Node) -> bool:
    """Return whether later stages read on into the next repetition, whose order is drawn from a seed."""
    return isinstance(node, Repeat) and is_reseeded(node.input)
