"""A shuffle after a map, and the repeat right after it: TensorFlow makes one stage of the shuffle and the repeat."""

from autopipe.pipeline.ir import Map, Node, Repeat, Shuffle
from autopipe.pipeline.seeds import is_reseeded

__all__ = ["mixing", "repeats_a_seed", "shuffled_map"]


def shuffled_map(node: Node) -> tuple[Shuffle, Map] | None:
    """Return the shuffle that a stage is, or right after which it repeats, and the map before that."""
    match node:
        case Shuffle(input=Map(preserve_cardinality=True) as mapped):
            return node, mapped
        case Repeat(input=Shuffle() as shuffle):
            return shuffled_map(shuffle)
    return None


def mixing(node: Node, source: Node) -> Node:
    """Return a shuffle, with the repeat after it if there is one, of other elements."""
    return node.on(node.input.on(source)) if isinstance(node, Repeat) else node.on(source)


def repeats_a_seed(node: Node) -> bool:
    """Return whether what comes after a stage reads on into the next repetition, whose order comes of a seed."""
    return isinstance(node, Repeat) and is_reseeded(node.input)
