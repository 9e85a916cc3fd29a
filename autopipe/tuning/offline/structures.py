"""The structures that a search chooses among: the pipeline with all rules, and with fewer kinds of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from autopipe.api import optimize
from autopipe.rules import Phase, catalogue, decides_caches

if TYPE_CHECKING:
    from autopipe.planning.plans.plan import Plan
    from autopipe.runtime.dataset import OptimizedDataset

__all__ = ["AS_WRITTEN", "OPTIMIZED", "as_planned", "structures"]

OPTIMIZED, AS_WRITTEN = "optimized", "as written"


def structures(dataset: OptimizedDataset) -> dict[str, OptimizedDataset]:
    """Return the pipelines to choose among, by name; those with the same stages count as one.

    Args:
        dataset: the pipeline with all rules that hold; it comes first.

    >>> import tensorflow as tf, autopipe
    >>> list(structures(autopipe.optimize(tf.data.Dataset.range(64).map(lambda x: x + 1).batch(4))))[0]
    'optimized'
    """
    applied = set(dataset.plan.rules)
    kinds = {
        AS_WRITTEN: applied,
        "without new caches": set(filter(decides_caches, applied)),
        "one by one": {rule.name for rule in catalogue() if rule.phase in (Phase.BATCH, Phase.GATHER)} & applied,
    }
    found = {OPTIMIZED: dataset}
    for name, without in kinds.items():
        if not without:
            continue
        rules = [] if name == AS_WRITTEN else [rule.name for rule in catalogue() if rule.name not in without]
        other = optimize(dataset.original, keeps=dataset.plan.keeps, rules=rules)
        if all(other.tree != known.tree for known in found.values()):
            found[name] = other
    return found


def as_planned(dataset: Any, plans: Mapping[str, Plan]) -> dict[str, OptimizedDataset]:
    """Return the pipelines of plans by the same names, so that all processes have the same, whatever they measure.

    Args:
        dataset: the pipeline as it was written.
        plans: the plan of each structure, by its name.

    >>> import tensorflow as tf, autopipe
    >>> written = tf.data.Dataset.range(64).map(lambda x: x + 1).batch(4)
    >>> found = structures(autopipe.optimize(written))
    >>> again = as_planned(written, {name: each.plan for name, each in found.items()})
    >>> [each.plan.rules == found[name].plan.rules for name, each in again.items()] == [True] * len(found)
    True
    """
    return {name: optimize(dataset, keeps=plan.keeps, plan=plan) for name, plan in plans.items()}
