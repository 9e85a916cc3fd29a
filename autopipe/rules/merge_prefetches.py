from dataclasses import replace

from autopipe.pipeline.ir import AUTOTUNE, Node, Prefetch
from autopipe.rules._base import Keeps, Rewrite, rule


@rule(keeps=Keeps.SEQUENCE)
def merge_prefetches(node: Node) -> Rewrite | None:
    """prefetch(a) | prefetch(b)  ->  prefetch(max(a, b))

    Two buffers in a row hold the same elements one after the other, and two threads pass each element on. One buffer of
    the larger size is enough, and reads no further ahead than both did. AUTOTUNE wins over a number. It needs: nothing.
    """
    match node:
        case Prefetch(input=Prefetch() as first):
            sizes = (first.buffer_size, node.buffer_size)
            size = AUTOTUNE if AUTOTUNE in sizes else max(sizes)
            return Rewrite(replace(node, input=first.input, buffer_size=size))
    return None
