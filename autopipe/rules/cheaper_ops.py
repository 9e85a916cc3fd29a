from dataclasses import replace

from autopipe.functions.analysis.effects import effects
from autopipe.functions.cheaper import cheaper_ops as cheaper
from autopipe.pipeline.ir import Map, Node
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import Faster, SameBits, SameOnSample


@rule(keeps=Keeps.SEQUENCE)
def cheaper_ops(node: Node) -> Rewrite | None:
    """map(f)  ->  map(f with cheaper ops)

    Some ops are slow in TensorFlow, though others give the same bits: ``x[..., ::-1]`` takes six times as long as
    ``tf.reverse``, ``x - [r, g, b]`` four times as long as on whole rows of an image, and ``tf.where`` copies what it
    could pass on. It needs: such an op on many numbers, the same bits on a sample (unless f draws), and a measured
    gain.
    """
    match node:
        case Map():
            found = cheaper.cheaper_ops(node.fn)
            if found is None:
                return None
            after = replace(node, fn=found.fn)
            same = [SameOnSample(node, after, over=node.input, exact=True)] if effects(node.fn).steady else []
            return Rewrite(after, (SameBits(found.instead), Faster(node, after, over=node.input), *same))
    return None
