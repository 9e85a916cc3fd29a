"""The functions users call."""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Iterable
from dataclasses import asdict, astuple, replace
from reprlib import repr as shortened
from typing import Any

import tensorflow as tf

from autopipe.arguments import MEASURING_SECONDS, bytes_or_none, is_truth, number, yes_or_no
from autopipe.environment import release
from autopipe.errors import ArgumentError, DatasetError, KnobError, PlanError
from autopipe.functions.parts.draws import undisturbed_generators
from autopipe.optimizer import Rewriting
from autopipe.pipeline import ir, trees
from autopipe.pipeline.disk_caches import caches_on_disk
from autopipe.pipeline.extract import extract
from autopipe.pipeline.knobs import read_knobs, with_knobs
from autopipe.pipeline.shared_caches import leave_shared_caches
from autopipe.pipeline.signature import signature
from autopipe.pipeline.text import stage
from autopipe.pipeline.visibility import who_would_see
from autopipe.planning.costs.consumer import Consumer, measure_pace
from autopipe.planning.costs.diagnosis import Diagnosis, diagnose
from autopipe.planning.costs.profiling import LEAST_SECONDS
from autopipe.planning.disk.disk_cache import DiskCache
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.planning.memory.freed import freed_memory, give_back_free_memory, keep_freed_memory
from autopipe.planning.memory.ledger import promise
from autopipe.planning.memory.machine import Machine
from autopipe.planning.plans.carry_over import carry_over
from autopipe.planning.plans.fingerprint import fingerprint
from autopipe.planning.plans.plan import MAKING_PLANS, Plan
from autopipe.planning.plans.planner import plan as make_plan
from autopipe.planning.plans.replay import replay
from autopipe.report.explanation import Explanation
from autopipe.report.waiting import shown_if_long
from autopipe.rules import Keeps, Rule, catalogue
from autopipe.runtime.dataset import OptimizedDataset
from autopipe.verify import verify

__all__ = ["explain", "optimize"]
_DIAGNOSIS_SECONDS = 2.0


def optimize(
    dataset: Any,
    *,
    keeps: str = "training",
    plan: Plan | str | os.PathLike[str] | None = None,
    ram_budget: int | None = None,
    disk_cache: str | os.PathLike[str] | None = None,
    rules: Iterable[str] | None = None,
    verify: bool = False,
    seconds: float = MEASURING_SECONDS,
) -> OptimizedDataset:
    """Rewrite an input pipeline so that it runs faster and yields what it yielded before.

    Args:
        dataset: a ``tf.data.Dataset``, made eagerly.
        keeps: what must stay: ``"sequence"`` (same values, same order), ``"elements"`` (same elements in every
            epoch; order may differ where it was free already, floats may round differently) or ``"training"``
            (also what leaves SGD equivalent: sharper epoch boundaries, other draws of a random augmentation, a variable
            assigned in mid-epoch that takes effect some dozens of elements later).
        plan: a plan, or the path of one, made by ``autopipe tune``: its rules and knobs are applied, and what
            it found to be faster is not measured again. The stronger of its promise and ``keeps`` counts. On a machine
            with more or fewer cores, its parallel calls and threads are scaled to match; ``explain()`` says so.
        ram_budget: bytes of memory that may be added for caches; by default half of what the process can get, and 0
            for no new cache. Where it has room for that, the process keeps memory that batches free for the next ones:
            from before measuring until the process ends, even if an error is raised after that.
        disk_cache: a folder where caches that are too large for memory may be kept, also for the next run. What is
            found there is read only if nothing that decides its elements has changed since. A complete cache stays
            there until you delete it.
        rules: the names of the rules that may be used (``autopipe rules`` lists them); by default all.
        verify: also read two epochs of both pipelines, and of the written one again, and compare what was promised.
            Each reading takes 10 seconds at the most, or 10,000 elements of each epoch: half a minute on large data,
            and longer where a difference is found.
        seconds: how long to measure on the pipeline's own elements at most; it mostly takes less. A measurement that
            has begun is finished, so slow elements may take longer: at a second each, the dozen it needs take twelve.
            With 0 nothing is measured, which takes a fraction of a second: only what is certain is done, and what a
            plan says; samples still prove that the plan is safe here.

    Returns:
        A ``tf.data.Dataset`` with ``explain()``, ``plan``, ``knobs``, ``retune()`` and ``original``.

    Raises:
        DatasetError: if ``dataset`` is not a dataset, is known to be empty, or every element tried raises.
        ArgumentError: if an argument breaks its law.
        PlanError: if the plan cannot be read or is for another pipeline.
        KnobError: if the plan names a knob the pipeline does not have.
        VerificationError: if ``verify`` finds a difference; the rule that makes it is named.

    >>> import tensorflow as tf, autopipe
    >>> dataset = autopipe.optimize(tf.data.Dataset.range(4).cache().map(lambda x: x * x).batch(2))
    >>> [batch.tolist() for batch in dataset.as_numpy_iterator()]
    [[0, 1], [4, 9]]
    """
    asked_to_verify = yes_or_no("verify", verify)
    given = _given(plan)
    tree, identity = _read(dataset)
    promised = _promise(given, identity, keeps)
    disk = None if disk_cache is None else DiskCache(_folder(disk_cache))
    _warn_of_disk_caches(tree, disk)
    measurements = _measurements(ram_budget, seconds, disk)
    freed = freed_memory(tree, measurements.ram_budget)
    if freed is not None and freed.kept:
        keep_freed_memory()
    rewriting = _rewriting(tree, given, rules, promised, measurements)
    # This frees the samples.
    del measurements
    done = _done(identity, promised, rewriting, given)
    _check_knobs(rewriting, done)
    if asked_to_verify:
        rewriting = _verified(rewriting, OptimizedDataset(dataset, rewriting, done))
    # Measuring needs much memory for a moment, which caches filled from other threads could not use again.
    if seconds > 0:
        give_back_free_memory()
    optimized = OptimizedDataset(dataset, rewriting, done, disk, freed)
    promise(optimized, rewriting.new_cache_bytes)
    return optimized


def explain(
    dataset: Any,
    *,
    keeps: str = "training",
    plan: Plan | str | os.PathLike[str] | None = None,
    ram_budget: int | None = None,
    seconds: float | None = None,
    consumer: Consumer | None = None,
    measuring_seconds: float = MEASURING_SECONDS,
) -> Explanation:
    """Return what limits a pipeline, what ``optimize()`` would do to it and why, changing nothing.

    Args:
        dataset: a ``tf.data.Dataset``, made eagerly.
        keeps: as for :func:`optimize`.
        plan: as for :func:`optimize`.
        ram_budget: as for :func:`optimize`.
        seconds: how long to run the pipeline for the cost of its stages; 0 leaves the costs out. By default 2, and 0
            where Python code, or a variable it assigns, would show that it was run.
        consumer: what takes its elements, such as ``autopipe.ModelSteps(model)``; with it, as many
            seconds again are spent to see how long each step waits, and how fast steps would be if input were free.
        measuring_seconds: as ``seconds`` of :func:`optimize`, to tell what that would do.

    Returns:
        The account; printed, it is a report.

    Raises:
        DatasetError: if ``dataset`` is not a dataset, or is empty.
        ArgumentError: if an argument breaks its law.
        PlanError, KnobError: as for :func:`optimize`.

    >>> import tensorflow as tf, autopipe
    >>> account = autopipe.explain(tf.data.Dataset.range(9).repeat(2).shuffle(9), seconds=0.2)
    >>> account.rewriting.steps[0].rule
    'shuffle_before_repeat'
    >>> [finding.code for finding in account.findings]
    ['AP107']
    """
    if consumer is not None and not _takes_steps(consumer):
        raise ArgumentError(
            f"consumer must take elements in steps, but got {consumer!r}. "
            "For a compiled Keras model it is autopipe.ModelSteps(model)."
        )
    to_spend = _diagnosis_seconds(seconds)
    given = _given(plan)
    tree, identity = _read(dataset)
    promised = _promise(given, identity, keeps)
    measurements = _measurements(ram_budget, measuring_seconds, name="measuring_seconds")
    rewriting = _rewriting(tree, given, None, promised, measurements)
    done = _done(identity, promised, rewriting, given)
    _check_knobs(rewriting, done)
    freed = freed_memory(tree, measurements.ram_budget)
    witness = _who_would_see(tree) if seconds is None else None
    diagnosis = None if witness else _diagnose(tree, to_spend, consumer)
    return Explanation(rewriting, done, diagnosis, freed, witness)


def _takes_steps(consumer: object) -> bool:
    return callable(getattr(consumer, "steps_per_second", None)) and not isinstance(consumer, type)


def _diagnosis_seconds(seconds: float | None) -> float:
    if seconds is None:
        return _DIAGNOSIS_SECONDS
    if isinstance(seconds, int | float) and not is_truth(seconds) and seconds == 0:
        return 0.0
    return number("seconds, where they are not 0,", seconds, LEAST_SECONDS, finite=True)


def _who_would_see(tree: ir.Node) -> str | None:
    return who_would_see(tree, draws_count=False)


def _diagnose(tree: ir.Node, seconds: float, consumer: Consumer | None) -> Diagnosis | None:
    if not seconds:
        return None
    pace_on = (lambda dataset: astuple(measure_pace(consumer, dataset, seconds))) if consumer else None
    with undisturbed_generators(trees.functions(tree)):
        return diagnose(tree, seconds, pace_on)


def _read(dataset: Any) -> tuple[ir.Node, str]:
    tree = extract(dataset)
    if int(dataset.cardinality()) == 0:
        first = next((node for node in trees.inputs_first(tree) if signature(node).cardinality == 0), tree)
        raise DatasetError(
            f"A dataset must have elements, but the one received is empty: {stage(first)} gives none. Look at what it "
            "reads, such as a file pattern that matches nothing, or at its arguments, such as take(0) or a batch that "
            "is larger than the dataset, with drop_remainder=True."
        )
    return tree, fingerprint(tree)


def _measurements(
    ram_budget: int | None, seconds: float, disk: DiskCache | None = None, *, name: str = "seconds"
) -> SampleMeasurements:
    seconds = number(name, seconds)
    budget = bytes_or_none("ram_budget", ram_budget)
    if budget is None:
        return SampleMeasurements(seconds=seconds, disk=disk)
    return SampleMeasurements(budget, seconds, disk)


def _folder(disk_cache: str | os.PathLike[str]) -> str:
    path = os.fspath(disk_cache) if isinstance(disk_cache, str | os.PathLike) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise ArgumentError(f"disk_cache must be the path of a folder, but got {disk_cache!r}.")
    if "://" in path:
        raise ArgumentError(
            f"disk_cache must be a folder on a disk of this machine, but got {path!r}. Its files are locked while they "
            "are written, which needs such a disk."
        )
    return os.path.expanduser(path)


def _verified(rewriting: Rewriting, run: OptimizedDataset) -> Rewriting:
    with shown_if_long("autopipe compares the pipeline with the one as written"):
        return replace(rewriting, verified=verify(rewriting, run=run))


def _keeps(name: str) -> Keeps:
    try:
        return Keeps[name.upper()]
    except (KeyError, AttributeError):
        known = ", ".join(f'"{each}"' for each in Keeps)
        raise ArgumentError(f"keeps must be one of {known}, but got {name!r}.") from None


def _rules(names: Iterable[str] | None) -> tuple[Rule, ...]:
    if names is None:
        return catalogue()
    try:
        wanted = [names] if isinstance(names, str) else list(names)
    except TypeError:
        raise ArgumentError(
            f"rules must be the names of rules, but got {names!r}. autopipe rules lists them."
        ) from None
    known = {rule.name: rule for rule in catalogue()}
    for name in wanted:
        if not isinstance(name, str) or name not in known:
            raise ArgumentError(f"A rule must be one of {', '.join(known)}, but got {name!r}.")
    return tuple(rule for name, rule in known.items() if name in wanted)


def _warn_of_disk_caches(tree: ir.Node, disk: DiskCache | None) -> None:
    if disk is None and caches_on_disk(tree):
        warnings.warn(
            "This dataset keeps a cache on disk, but optimize() was called again without disk_cache=, so what that "
            "cache holds is made anew in every epoch. Pass the same disk_cache.",
            stacklevel=3,
        )


def _given(plan: Plan | str | os.PathLike[str] | None) -> Plan | None:
    if plan is None:
        return None
    if isinstance(plan, Plan):
        # One that was made by hand may hold anything.
        try:
            text = plan.to_json()
        except (TypeError, ValueError) as error:
            raise PlanError(f"A plan must hold what JSON can, but the one given does not: {error}.") from None
        return Plan.from_json(text, where="the plan given")
    if isinstance(plan, str | os.PathLike):
        return Plan.load(plan)
    raise ArgumentError(f"plan must be a plan, or the path of one, but got {plan!r}.")


def _promise(given: Plan | None, identity: str, keeps: str) -> Keeps:
    """Return what must stay: what is asked for, or what a plan promises, if that is more."""
    asked = _keeps(keeps)
    if given is None:
        return asked
    _check_plan(given, identity)
    return max(asked, _keeps(given.keeps))


def _rewriting(
    tree: ir.Node,
    given: Plan | None,
    rules: Iterable[str] | None,
    keeps: Keeps,
    measurements: SampleMeasurements,
) -> Rewriting:
    """Return the rewriting of a pipeline: by a plan if that is safe here too, or else the one that measures best."""
    tree = leave_shared_caches(tree, files_may_change=keeps is Keeps.SEQUENCE)
    if given is not None and rules is None:
        rules = given.rules
        again = replay(tree, given, _rules(rules), keeps=keeps, measurements=measurements)
        if again is not None:
            return again
    with shown_if_long("autopipe measures the pipeline on its own elements"):
        return make_plan(tree, _rules(rules), keeps=keeps, measurements=measurements)


def _check_plan(plan: Plan, identity: str) -> None:
    remedy = f"Make a new one with: {MAKING_PLANS}"
    if plan.fingerprint != identity:
        there, here = plan.versions.get("tensorflow"), _versions()["tensorflow"]
        other = "" if there in (None, here) else f", or TensorFlow has, which was {there} and is {here}"
        raise PlanError(
            f"A plan must be for this pipeline, whose fingerprint is {identity}, but got one for "
            f"{shortened(plan.fingerprint)[1:-1]}: a stage, an argument or a function has changed since{other}. "
            f"{remedy}"
        )
    unknown = sorted(set(plan.rules) - {rule.name for rule in catalogue()})
    if unknown:
        raise PlanError(
            "A plan must name rules of this release, which autopipe rules lists, "
            f"but got one with {shortened(unknown[0])}. {remedy}"
        )


def _done(identity: str, keeps: Keeps, rewriting: Rewriting, given: Plan | None) -> Plan:
    """Return the plan of what was done; with the numbers of one that was given, as they are on this machine."""
    rules, places = tuple(step.rule for step in rewriting.steps), tuple(step.place for step in rewriting.steps)
    done = Plan(identity, str(keeps), rules, places, machine=asdict(Machine.here()), versions=_versions())
    return done if given is None else carry_over(given, done, read_knobs(rewriting.tunable))


def _check_knobs(rewriting: Rewriting, done: Plan) -> None:
    try:
        with_knobs(rewriting.tunable, done.knobs)
    except KnobError as error:
        raise KnobError(
            f"{error} It is a number of the plan: take it out of there, or make a new one with: {MAKING_PLANS}"
        ) from None


def _versions() -> dict[str, str]:
    """Return the versions of what decides how a pipeline runs; where autopipe is not installed, without its own."""
    import keras

    versions = {"keras": keras.__version__, "python": platform.python_version(), "tensorflow": tf.__version__}
    own = release()
    return versions if own is None else {"autopipe": own, **versions}
