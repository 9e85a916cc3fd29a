from dataclasses import replace

from autopipe.functions.analysis.effects import effects
from autopipe.functions.analysis.rounding import jumps_after_regrouping, rounds_alike
from autopipe.functions.batched.batchable_part import split_batchable_part
from autopipe.functions.batched.exact import computes_exactly, jumps_in_batch
from autopipe.functions.batched.vectorize import why_not_vectorizable
from autopipe.pipeline.ir import Batch, Map, Node
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._calls import calls_on_batches
from autopipe.rules._obligations import (
    Faster,
    HasBatchedForm,
    LightResults,
    NoErrorIsLeftOver,
    ReadAheadUnseen,
    RoundingUnseen,
    SameOnSample,
)


@rule(keeps=Keeps.ELEMENTS, phase=Phase.BATCH)
def vectorize_rest(node: Node) -> Rewrite | None:
    """map(f) | batch(b)  ->  map(first part of f) | batch(b) | map(vectorized rest of f)

    Where f as a whole has no batched form, it is cut: what must be done for each element by itself stays before the
    batch (a random draw, so that no two images share one; decoding; what has no known shape), and the rest is done
    by the batch. It needs: a batched form of the rest, no ``ignore_errors`` downstream, results so small that calls
    cost something beside the work, the same results on a sample, and a measured gain. Where the rest rounds alike
    alone and in a batch, the sequence is kept bit for bit.
    """
    match node:
        case Batch(input=Map(synchronous=False) as mapped):
            light = LightResults(mapped)
            if light.fails_by_type:
                return None
            size = node.batch_size if node.drop_remainder else None
            parts = split_batchable_part(mapped.fn, size) if why_not_vectorizable(mapped.fn, size) else None
            if parts is None:
                return None
            first, rest, batched = parts
            early = replace(mapped, fn=first)
            calls = calls_on_batches(mapped.num_parallel_calls)
            after = replace(mapped, fn=batched, input=node.on(early), num_parallel_calls=calls)
            exact = computes_exactly(rest) and rounds_alike(mapped.fn, first, rest)
            jump = jumps_in_batch(rest) or jumps_after_regrouping(mapped.fn)
            one_by_one = node.on(replace(mapped, fn=rest, input=early))
            same = SameOnSample(one_by_one, after, over=early, exact=exact)
            faster = Faster(node, after, over=mapped.input)
            # Elements are read ahead of the batch, and a generator may be shared with another stage.
            unseen = (ReadAheadUnseen(early),) if effects(mapped.fn).generator else ()
            safe = (HasBatchedForm(rest, size), NoErrorIsLeftOver(rest, node), light, *unseen)
            return Rewrite(
                after,
                (*safe, faster, same) if exact else (*safe, RoundingUnseen(jump, "in a batch"), faster, same),
                keeps=Keeps.SEQUENCE if exact else None,
            )
    return None
