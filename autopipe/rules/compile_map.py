from dataclasses import replace

from autopipe.functions.analysis.rounding import jumps_after_arithmetic
from autopipe.functions.cheaper.compiled import compile_ending
from autopipe.functions.joined.compose import compose
from autopipe.pipeline.ir import Map, Node
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._obligations import Faster, NoErrorIsLost, RoundingUnseen, SameOnSample


@rule(keeps=Keeps.ELEMENTS, phase=Phase.BATCH)
def compile_map(node: Node) -> Rewrite | None:
    """map(f)  ->  map(f with its arithmetic compiled)

    Each op of f reads and writes a whole image; compiled by XLA, the arithmetic that f ends with goes over it once.
    What f draws, reads and decodes stays as it is. It needs: arithmetic that cannot fail (XLA would hide the error) and
    that XLA does as TensorFlow does, except for rounding, nothing downstream that amplifies rounding, tensors of known
    shape, the same results on a sample, and a measured gain.
    """
    match node:
        case Map(synchronous=False):
            parts = compile_ending(node.fn)
            if parts is None:
                return None
            first, rest, compiled = parts
            whole = replace(compose(first, compiled), name=f"compiled {node.fn}")
            after = replace(node, fn=whole)
            early = replace(node, fn=first)
            plain, fused = (replace(node, fn=fn, input=early) for fn in (rest, compiled))
            same = SameOnSample(plain, fused, over=early, exact=False)
            unseen = RoundingUnseen(jumps_after_arithmetic(rest), where="where XLA computes them")
            safe = (NoErrorIsLost(rest), unseen)
            return Rewrite(after, (*safe, Faster(node, after, over=node.input), same))
    return None
