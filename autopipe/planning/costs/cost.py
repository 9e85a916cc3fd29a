"""The arithmetic of a pipeline's rate: which stage limits it, and what more cores would gain.

Operational analysis (Denning and Buzen, "The Operational Analysis of Queueing Network Models", ACM Computing Surveys
10(3), 1978): the demand of an element on a resource bounds the rate of elements, whatever the order and distribution of
the work. The resources here are the cores, the threads that run stages one after the other, and the calls that each
parallel stage may run at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autopipe.pipeline import ir, trees
from autopipe.planning.costs.profile import Profile, StageProfile

__all__ = ["Bound", "bounds", "cores_needed", "limiting"]

# If at least this share of the cores is busy, they are what all stages wait for.
_BUSY = 0.85


@dataclass(frozen=True)
class Bound:
    """What one resource allows.

    Attributes:
        rate: the largest number of elements of the pipeline per second; infinite for a resource that no stage needs.
        resource: what it is, in words.
        stage: the stage that needs most of it.
        share: how much of it was in use, 0 to 1.
    """

    rate: float
    resource: str
    stage: StageProfile
    share: float


def bounds(profile: Profile, tree: ir.Node) -> tuple[Bound, ...]:
    """Return what each resource allows, the scarcest first.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> from autopipe.planning.costs.profiling import profile_tree
    >>> tree = extract(tf.data.Dataset.range(50_000).batch(10))
    >>> scarcest = bounds(profile_tree(tree, 0.3), tree)[0]
    >>> scarcest.rate > 0 and 0 < scarcest.share
    True
    """
    if not profile.stages:
        return ()
    found = [_cores(profile), *_calls(profile), *_threads(profile, tree)]
    return tuple(sorted(found, key=lambda bound: -bound.share))


def limiting(profile: Profile, tree: ir.Node) -> Bound | None:
    """Return the resource that limits the pipeline: the cores if they are busy, else the busiest of the others."""
    found = bounds(profile, tree)
    cores = next((each for each in found if each.resource == _cores_in_words(profile)), None)
    if cores is None or cores.share >= _BUSY:
        return cores
    return next((each for each in found if each is not cores), cores)


def cores_needed(profile: Profile, rate: float) -> float:
    """Return how many cores it takes to make elements at a rate, by the CPU time of one element."""
    elements = profile.stretch.elements
    return rate * profile.stretch.cpu_seconds / elements if elements else 0.0


def _cores(profile: Profile) -> Bound:
    costliest = max(profile.stages, key=lambda each: each.seconds_per_element)
    per_element = cores_needed(profile, 1.0)
    rate = profile.machine.cores / per_element if per_element else float("inf")
    return Bound(rate, _cores_in_words(profile), costliest, profile.stretch.cores / profile.machine.cores)


def _cores_in_words(profile: Profile) -> str:
    return f"{profile.machine.cores:g} cores"


def _calls(profile: Profile) -> Iterator[Bound]:
    for each in profile.stages:
        if each.parallelism is None or not each.seconds_per_element:
            continue
        calls = max(each.parallelism, 1)
        rate = calls / each.seconds_per_element
        yield Bound(rate, f"{calls} call{'s' if calls > 1 else ''} at once", each, profile.stretch.rate / rate)


def _threads(profile: Profile, tree: ir.Node) -> Iterator[Bound]:
    """Yield the bound of each thread that runs stages one after the other, up to stages that work ahead of it."""
    costs = {each.node: each for each in profile.stages}
    for end in [tree, *(node for node in trees.walk(tree) if node in costs and costs[node].ahead)]:
        ran = [costs[node] for node in _run_by_thread(end, costs, is_end=end is tree) if node in costs]
        seconds = sum(each.seconds_per_element for each in ran)
        if seconds:
            slowest = max(ran, key=lambda each: each.seconds_per_element)
            yield Bound(1 / seconds, "one element at a time", slowest, profile.stretch.rate * seconds)


def _run_by_thread(end: ir.Node, costs: dict[ir.Node, StageProfile], *, is_end: bool) -> Iterator[ir.Node]:
    if is_end and not (end in costs and costs[end].ahead):
        yield end
    for child in end.inputs:
        if not (child in costs and costs[child].ahead):
            yield from _run_by_thread(child, costs, is_end=True)
