"""The choice among legal plans: the rewritten pipeline as a whole must not be slower than the given one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from autopipe.errors import DatasetError
from autopipe.figures import bytes_text
from autopipe.functions.parts.draws import undisturbed_generators
from autopipe.optimizer import Refusal, Rewriting, new_caches, rewrite
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.cache_files import writing_none
from autopipe.pipeline.visibility import who_would_see
from autopipe.planning.measuring.count import most_elements
from autopipe.planning.measuring.failures import Failures, skipping_failures
from autopipe.planning.measuring.measure import FASTEST_CONSUMER, SampleMeasurements
from autopipe.rules import FitsDisk, Keeps, MeasurementError, OutgrowsMemory, Phase, Rule, decides_caches
from autopipe.sentences import one_sentence

__all__ = ["plan"]

# Two runs of one pipeline may differ by this ratio on a busy machine.
_NOISE = 0.97
_SAME = (1.0, 1.0, 1.0)
# For a cache that holds more than this, and saves less than this per element, it is worth measuring whether it is
# needed.
_MUCH_MEMORY = 64 * 2**20
_MUCH_WORK = 500e-6
# A cache that saves less than this share of an epoch, on one core, gains little.
_LITTLE_GAIN = 0.03


@dataclass(frozen=True)
class _Candidate:
    rewriting: Rewriting
    speed: tuple[float, float, float]

    @property
    def slower(self) -> bool:
        _, _, high = self.speed
        return high < _NOISE

    @property
    def told(self) -> Rewriting:
        """The rewriting, with its speed."""
        if not self.rewriting.steps or self.speed == _SAME:
            return self.rewriting
        ratio, low, high = self.speed
        whole = (
            f"measured {ratio:.2f}x ({low:.2f}-{high:.2f}) the speed of the pipeline as written, after the first "
            f"epoch, with a model that takes {FASTEST_CONSUMER * 1e3:g} ms for each step"
        )
        return replace(self.rewriting, whole=whole)


def plan(tree: ir.Node, rules: Sequence[Rule], *, keeps: Keeps, measurements: SampleMeasurements) -> Rewriting:
    """Return the best rewriting of a pipeline that does not measure slower than the pipeline itself.

    Each rule is judged on the stages it changes. Together they may still lose: two stages that were fast alone may
    need the same cores. So the whole is measured against the whole. A cache must be faster than the same work done by
    the batch; one on disk must be faster than an earlier one in memory plus the rest of the work. If the result loses
    to the pipeline as it is, rewritings with fewer kinds of rules are tried, and the fastest that does not lose is
    taken; if all lose, nothing is changed.

    Args:
        tree: the pipeline as it was written.
        rules: the rules to try.
        keeps: what must be kept.
        measurements: answers the questions of obligations about the user's elements.

    Returns:
        The rewriting. If the whole cannot be measured, or the given pipeline does not fit in memory, the proofs of the
        single rules must do. If only a sample fails, which has no shuffles and repeats, only what is certain without
        measuring is applied.

    Raises:
        DatasetError: if every element tried raises.
    """
    try:
        return _best(tree, rules, keeps, measurements)
    except DatasetError as failed:
        if _gives_nothing(tree):
            raise
        raised = one_sentence(failed.__cause__ or failed)
        measurements.give_up(f"a sample of it fails, and the pipeline itself need not: {raised}")
        return _best(tree, rules, keeps, measurements)


def _gives_nothing(tree: ir.Node) -> bool:
    """Return whether no element comes out of a pipeline; ``False`` if a run could be noticed, so that it is unknown."""
    if who_would_see(tree, draws_count=False):
        return False
    with undisturbed_generators(trees.functions(tree)):
        return next(skipping_failures(iter(build(writing_none(tree))), Failures()), None) is None


def _best(tree: ir.Node, rules: Sequence[Rule], keeps: Keeps, measurements: SampleMeasurements) -> Rewriting:
    best = _worth_its_disk(rewrite(tree, rules, keeps=keeps, measurements=measurements), rules, keeps, measurements)
    if _was_above_memory(best, rules):
        return replace(best, whole="not known: a sample of what is cached fits memory as it was written, too")
    if not any(cache.on_disk for cache in new_caches(best.before, best.after)):
        rules = _in_memory(rules)
    best = _worth_its_memory(best, rules, keeps, measurements)
    best = _not_slower(best, rules, keeps, measurements)
    within = _within_budget(best, rules, keeps, measurements)
    return best if within is best else _not_slower(within, _keeping_nothing(rules), keeps, measurements)


def _worth_its_disk(
    best: Rewriting, rules: Sequence[Rule], keeps: Keeps, measurements: SampleMeasurements
) -> Rewriting:
    """Return the rewriting, or one that caches earlier results in memory in place of later ones on disk.

    The rest of the work is then done in every epoch, which may take less than reading large results. Both are compared
    by the cost of an element from the second epoch on, up to the later cache.
    """
    late = _new_cache(best)
    if late is None or late.in_memory:
        return best
    other = rewrite(best.before, _in_memory(rules), keeps=keeps, measurements=measurements)
    early = _new_cache(other)
    if early is None:
        return best
    try:
        made_early, from_memory = measurements.caching(early.kept)
        made_late, _ = measurements.caching(late.kept)
        _, from_disk = measurements.caching(late.kept, on_disk=True)
    except MeasurementError:
        return best
    with_the_rest = from_memory + max(made_late - made_early, 0.0)
    if with_the_rest > _NOISE * from_disk:
        return best
    reason = (
        f"an element takes {from_disk * 1e6:,.0f} us to read from disk in every epoch, and "
        f"{with_the_rest * 1e6:,.0f} us from an earlier cache, which fits memory, with the rest of the work"
    )
    return _instead(best, other, reason)


def _instead(best: Rewriting, other: Rewriting, reason: str) -> Rewriting:
    """Return the other rewriting, with the reason why it does not have the caches of the best one."""
    refusals = (Refusal(step.rule, step.before, reason) for step in best.steps if decides_caches(step.rule))
    return replace(other, refusals=(*other.refusals, *refusals))


def _in_memory(rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules that keep nothing on disk."""
    return [rule for rule in rules if not rule.may_ask(FitsDisk)]


def _new_cache(rewriting: Rewriting) -> ir.Keeping | None:
    """Return the cache that was added, if there is exactly one."""
    caches = new_caches(rewriting.before, rewriting.after)
    return caches[0] if len(caches) == 1 else None


def _worth_its_memory(
    best: Rewriting, rules: Sequence[Rule], keeps: Keeps, measurements: SampleMeasurements
) -> Rewriting:
    """Return the rewriting, or one without new caches if that is as fast, since it holds no memory.

    It may be as fast if the batch does the work, or if the remaining work takes many times as long. Additional work
    counts even if no consumer would wait for it, since it takes cores.
    """
    if not any(decides_caches(step.rule) for step in best.steps):
        return best
    if not _saves_little(best, measurements) and not _has_more_work_for_batches(best, rules, keeps, measurements):
        return best
    without = _without_caches(best, rules, keeps, measurements)
    try:
        speed = _lower_of_two(best.after, without.after, measurements)
    except MeasurementError:
        return best
    if speed < _NOISE:
        return best
    return _instead(best, without, f"without it, the whole measured {speed:.2f}x its speed")


def _lower_of_two(before: ir.Node, after: ir.Node, measurements: SampleMeasurements) -> float:
    """Return how many times as fast another pipeline is; dropping a cache takes two measurements that agree."""
    speed, _, _ = measurements.whole_speed(before, after, consumer_seconds=0.0)
    if speed < _NOISE:
        return speed
    again, _, _ = measurements.whole_speed(before, after, consumer_seconds=0.0)
    return min(speed, again)


def _saves_little(best: Rewriting, measurements: SampleMeasurements) -> bool:
    """Return whether the new cache holds much memory but saves only a small share of an epoch."""
    cache = _new_cache(best)
    if not isinstance(cache, ir.Cache) or cache.on_disk or best.new_cache_bytes < _MUCH_MEMORY:
        return False
    try:
        saving = measurements.saving(cache.kept)
        if saving >= _MUCH_WORK:
            return False
        saved = saving * most_elements(cache) * _times_read(cache, best.after)
        return measurements.epoch_outlasts(best.after, saved / _LITTLE_GAIN)
    except MeasurementError:
        return False


def _times_read(cache: ir.Node, pipeline: ir.Node) -> float:
    """Return how often a cache is read in an epoch at most."""
    repeats = (node for node in trees.walk(pipeline) if isinstance(node, ir.Repeat) and cache in trees.walk(node))
    return math.prod(math.inf if repeat.is_infinite else repeat.count for repeat in repeats)


def _has_more_work_for_batches(
    best: Rewriting, rules: Sequence[Rule], keeps: Keeps, measurements: SampleMeasurements
) -> bool:
    """Return whether a batch would do more work without new caches, trying only rules up to the batch phase."""
    without = _without_caches(best, [rule for rule in rules if rule.phase <= Phase.BATCH], keeps, measurements)
    return bool(_by_batch(without, rules) - _by_batch(best, rules))


def _by_batch(rewriting: Rewriting, rules: Sequence[Rule]) -> set[tuple[str, str, str]]:
    """Return the steps that moved work to whole batches: rule, before and after."""
    names = {rule.name for rule in rules if rule.phase is Phase.BATCH}
    return {(step.rule, step.before, step.after) for step in rewriting.steps if step.rule in names}


def _not_slower(best: Rewriting, rules: Sequence[Rule], keeps: Keeps, measurements: SampleMeasurements) -> Rewriting:
    """Return the rewriting if it did not lose, or else the fastest of those with fewer kinds of rules."""
    try:
        found = _measured(best, measurements)
    except MeasurementError as unmeasured:
        raised = unmeasured.__cause__ is not None
        if raised and measurements.fails(best.after) and not measurements.fails(best.before):
            refusals = (Refusal(step.rule, step.before, f"as a whole it fails: {unmeasured}") for step in best.steps)
            return replace(_unchanged(best), refusals=(*best.refusals, *refusals))
        said = any(str(unmeasured) == refusal.reason for refusal in best.refusals)
        return best if said else replace(best, whole=f"not known: {unmeasured}")
    if not found.slower:
        return found.told
    standing = list(_standing(_alternatives(best, rules, keeps, measurements), measurements))
    chosen = max(standing, key=lambda each: each.speed[0]).told if standing else _unchanged(best)
    lost = f"as a whole it measured {found.speed[0]:.2f}x the speed of the pipeline as written"
    kept = {(step.rule, step.before, step.after) for step in chosen.steps}
    dropped = (step for step in best.steps if (step.rule, step.before, step.after) not in kept)
    refusals = (Refusal(step.rule, step.before, lost) for step in dropped)
    stated = (each for each in best.refusals if each not in chosen.refusals and decides_caches(each.rule))
    return replace(chosen, refusals=(*chosen.refusals, *stated, *refusals))


def _standing(rewritings: Iterable[Rewriting], measurements: SampleMeasurements) -> Iterator[_Candidate]:
    """Yield those that were measured and did not lose."""
    for each in rewritings:
        with suppress(MeasurementError):
            candidate = _measured(each, measurements)
            if not candidate.slower:
                yield candidate


def _was_above_memory(best: Rewriting, rules: Sequence[Rule]) -> bool:
    """Return whether a cache too large for memory was made smaller: on a sample, which fits, it would seem faster."""
    shrinking = {rule.name for rule in rules if rule.may_ask(OutgrowsMemory) and not rule.may_ask(FitsDisk)}
    return any(step.rule in shrinking for step in best.steps)


def _within_budget(best: Rewriting, rules: Sequence[Rule], keeps: Keeps, measurements: SampleMeasurements) -> Rewriting:
    """Return the rewriting, or one without new caches if the memory held by measuring leaves them no room."""
    beside = measurements.bytes_beside_caches(best.after)
    if not best.new_cache_bytes or best.new_cache_bytes + beside <= measurements.ram_budget:
        return best
    without = _without_caches(best, rules, keeps, measurements)
    above = f"with buffers and measuring, its cache is above the RAM budget of {bytes_text(measurements.ram_budget)}"
    return _instead(best, without, above)


def _measured(rewriting: Rewriting, measurements: SampleMeasurements) -> _Candidate:
    if not rewriting.steps:
        return _Candidate(rewriting, _SAME)
    found = _Candidate(rewriting, measurements.whole_speed(rewriting.before, rewriting.after))
    if not found.slower:
        return found
    # On a busy machine some comparisons are wrong: a rewriting has to lose twice, if there is time for it.
    with suppress(MeasurementError):
        again = _Candidate(rewriting, measurements.whole_speed(rewriting.before, rewriting.after))
        return max(found, again, key=lambda each: each.speed[2])
    return found


def _alternatives(
    lost: Rewriting, rules: Sequence[Rule], keeps: Keeps, measurements: SampleMeasurements
) -> Iterator[Rewriting]:
    """Yield the rewritings without each kind of rules that took part in the one that lost."""
    applied = {step.rule for step in lost.steps}
    seen = {lost.after}
    for kind in sorted({_kind(rule) for rule in rules if rule.name in applied}):
        fewer = [rule for rule in rules if _kind(rule) != kind]
        found = rewrite(lost.before, fewer, keeps=keeps, measurements=measurements)
        if found.after not in seen:
            seen.add(found.after)
            yield found


def _kind(rule: Rule) -> tuple[Phase, bool]:
    return rule.phase, decides_caches(rule.name)


def _without_caches(
    best: Rewriting, rules: Sequence[Rule], keeps: Keeps, measurements: SampleMeasurements
) -> Rewriting:
    return rewrite(best.before, _keeping_nothing(rules), keeps=keeps, measurements=measurements)


def _keeping_nothing(rules: Sequence[Rule]) -> list[Rule]:
    """Return the rules that do not decide about caches."""
    return [rule for rule in rules if not decides_caches(rule.name)]


def _unchanged(lost: Rewriting) -> Rewriting:
    return Rewriting(lost.before, lost.before, (), lost.refusals)
