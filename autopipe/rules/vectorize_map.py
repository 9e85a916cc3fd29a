from dataclasses import replace

import tensorflow as tf

from autopipe.functions.batched.exact import computes_exactly, jumps_in_batch
from autopipe.functions.batched.vectorize import NotVectorizableError, vectorize
from autopipe.functions.joined.compose import compose
from autopipe.pipeline.ir import Batch, Map, Node
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._calls import calls_on_batches
from autopipe.rules._obligations import (
    Faster,
    HasBatchedForm,
    LightResults,
    NoErrorIsLeftOver,
    RoundingUnseen,
    SameOnSample,
)


@rule(keeps=Keeps.ELEMENTS, phase=Phase.BATCH)
def vectorize_map(node: Node) -> Rewrite | None:
    """map(f) | batch(b)  ->  batch(b) | map(vectorized f)

    One call per batch instead of one per element: the cost of a call is paid b times less often. It needs: f stateless
    (two images of a batch must not share one random draw), elements of one known shape (so that they can be stacked
    before f as after it), a batched form of every op of f, no ``ignore_errors`` downstream (one bad element would
    take its batch with it), results so small that calls cost something beside the work, the same results on a
    sample, and a measured gain, since some functions are slower on batches. AUTOTUNE sets the number of parallel calls:
    the number there was for elements would hold as many batches. Where every op of f rounds alike alone and in a batch,
    the sequence is kept bit for bit; otherwise elements are kept up to float rounding.
    """
    match node:
        case Batch(input=Map(synchronous=False) as mapped):
            mapped = _with_what_it_encodes(mapped)
            light = LightResults(mapped)
            if light.fails_by_type:
                return Rewrite(node, provided=(light,))
            size = node.batch_size if node.drop_remainder else None
            batchable = HasBatchedForm(mapped.fn, size)
            try:
                batched = vectorize(mapped.fn, size)
            except NotVectorizableError:
                return Rewrite(node, provided=(batchable,))
            calls = calls_on_batches(mapped.num_parallel_calls)
            after = replace(mapped, fn=batched, input=node.on(mapped.input), num_parallel_calls=calls)
            exact = computes_exactly(mapped.fn)
            same = SameOnSample(node, after, over=mapped.input, exact=exact)
            faster = Faster(node, after, over=mapped.input)
            safe = (batchable, NoErrorIsLeftOver(mapped.fn, node), light)
            rounding = () if exact else (RoundingUnseen(jumps_in_batch(mapped.fn), "in a batch"),)
            return Rewrite(
                after,
                (*safe, *rounding, faster, same),
                keeps=Keeps.SEQUENCE if exact else None,
            )
    return None


def _with_what_it_encodes(mapped: Map) -> Map:
    """Return the map that ``ragged_batch`` added, composed with the map before it, which gave it the vectors."""
    ragged = any(isinstance(part, tf.RaggedTensorSpec) for part in tf.nest.flatten(mapped.fn.output_spec))
    match mapped.input:
        case Map(synchronous=False) as parsing if ragged:
            return replace(parsing, fn=compose(parsing.fn, mapped.fn))
    return mapped
