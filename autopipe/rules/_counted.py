"""A number of batches, expressed in elements."""

from dataclasses import replace

from autopipe.pipeline.ir import Batch, Node, Skip, Take

__all__ = ["counted_in_elements"]

_MOST = 2**63 - 1


def counted_in_elements(node: Skip | Take) -> tuple[Batch, Node] | None:
    """Return the batch before a stage that counts batches, and both in reverse order; ``None`` if there is no batch."""
    batch = node.input
    if not isinstance(batch, Batch) or not 0 < node.count * batch.batch_size <= _MOST:
        return None
    return batch, batch.on(replace(node, input=batch.input, count=node.count * batch.batch_size))
