"""What stands out in a pipeline as written: each finding with a stable code, where, why, and what to do about it.

A finding changes nothing. Many name what no rule may change by itself, since it changes what the model sees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autopipe.optimizer import Refusal
from autopipe.pipeline import ir, trees
from autopipe.planning.costs.diagnosis import Diagnosis
from autopipe.report.findings import caches, consumer, draws, order, work
from autopipe.report.findings._base import Finding, Look, Seen

__all__ = ["CODES", "CODES_OF_CONSUMERS", "CODES_OF_COSTS", "Finding", "findings"]

_LOOKS: Mapping[str, Look] = {**order.LOOKS, **caches.LOOKS, **draws.LOOKS, **work.LOOKS, **consumer.LOOKS}
CODES = tuple(sorted(_LOOKS))
CODES_OF_CONSUMERS = frozenset(consumer.LOOKS)
"""The codes of findings that need a consumer."""
CODES_OF_COSTS = CODES_OF_CONSUMERS | {"AP106", "AP109", "AP110", "AP112", "AP114", "AP202", "AP205"}
"""The codes of findings that need measured costs."""


def findings(
    tree: ir.Node, diagnosis: Diagnosis | None = None, refusals: Sequence[Refusal] = ()
) -> tuple[Finding, ...]:
    """Return what stands out in a pipeline, from its source to its end.

    Args:
        tree: the pipeline as written.
        diagnosis: what was measured of it; without, only what its stages tell is found.
        refusals: what was not done to it, and why: what was found to be slower is not advised.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> [each.code for each in findings(extract(tf.data.Dataset.range(99).batch(3).shuffle(99)))]
    ['AP101']
    """
    seen = Seen(tree, diagnosis, refusals)
    nodes = dict.fromkeys((*reversed(list(trees.walk(tree))), ir.End(input=tree)))
    return tuple(finding for node in nodes for look in _LOOKS.values() for finding in look(node, seen))
