from math import prod
from typing import Any

import tensorflow as tf

from autopipe.functions.batched.exact import computes_exactly
from autopipe.functions.batched.mask import mask
from autopipe.functions.batched.vectorize import NotVectorizableError
from autopipe.pipeline.failing import who_may_fail
from autopipe.pipeline.ir import Batch, Filter, Map, Node, Rebatch
from autopipe.rules._base import Keeps, Phase, Rewrite, rule
from autopipe.rules._obligations import (
    AllAreTaken,
    Faster,
    HasBatchedForm,
    NoErrorIsIgnored,
    NoOrderDrawnEarly,
    ReadAheadUnseen,
    SameOnSample,
)

_ROWS = 256
_BYTES = 8 * 2**20
_TEXT_BYTES = 64 * 1024


@rule(keeps=Keeps.SEQUENCE, phase=Phase.BATCH)
def filter_batches(node: Node) -> Rewrite | None:
    """filter(p) | batch(b)  ->  batch(k) | map(where p) | rebatch(b)

    The predicate is called once for k elements, and what passes is cut into the same batches. The first batch waits for
    k elements: 256, fewer where they are large, and at least b. It needs: elements of one known shape, a p that only
    computes and has a batched form, nothing upstream that could be seen to run ahead, no seeded shuffle that is
    repeated there, the same results on a sample, and a measured gain. Where something may fail, an error comes up to k
    elements earlier than it did: the sequence is then not kept, and no ``ignore_errors`` or ``take`` may be downstream.
    If p may round differently in a batch, so that an element at the threshold passes that did not before, that needs
    keeps="training".
    """
    match node:
        case Batch(input=Filter(predicate=predicate) as filtered, batch_size=size):
            batchable = HasBatchedForm(predicate, None)
            try:
                masked = mask(predicate)
            except NotVectorizableError:
                return Rewrite(node, provided=(batchable,))
            blocks = Batch(input=filtered.input, batch_size=max(size, _rows_of_a_block(predicate.input_spec)))
            kept = Map(input=blocks, fn=masked, name=filtered.name)
            after = Rebatch(input=kept, batch_size=size, drop_remainder=node.drop_remainder, name=node.name)
            fails = who_may_fail(filtered) is not None
            errors = (NoErrorIsIgnored(), AllAreTaken()) if fails else ()
            drawn = NoOrderDrawnEarly(filtered.input)
            unseen = (batchable, ReadAheadUnseen(filtered.input), drawn, *errors)
            same = SameOnSample(node, after, over=filtered.input, exact=True)
            keeps = Keeps.TRAINING if not computes_exactly(predicate) else Keeps.ELEMENTS if fails else Keeps.SEQUENCE
            return Rewrite(after, (*unseen, Faster(node, after, over=filtered.input), same), keeps)
    return None


def _rows_of_a_block(spec: Any) -> int:
    parts = tf.nest.flatten(spec)
    widths = (_TEXT_BYTES if part.dtype == tf.string else int(part.dtype.size) for part in parts)
    row = sum(int(prod(part.shape)) * width for part, width in zip(parts, widths, strict=True))
    return min(_ROWS, _BYTES // max(row, 1))
