from autopipe.pipeline.ir import End, Node, Prefetch
from autopipe.pipeline.trees import last_stage
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._obligations import ReadAheadUnseen


@rule(keeps=Keeps.SEQUENCE, phase=Phase.OVERLAP)
def prefetch_at_end(node: Node) -> Rewrite | None:
    """...  ->  ... | prefetch(AUTOTUNE)

    The pipeline makes the next element while the model trains on this one. The sequence is the same. It needs:
    nothing upstream that could be seen to run ahead, such as a map that counts in a variable.
    """
    if not isinstance(node, End) or isinstance(last_stage(node.input), Prefetch):
        return None
    return Rewrite(node.on(Prefetch(input=node.input)), provided=(ReadAheadUnseen(node.input),))
