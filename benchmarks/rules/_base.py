"""What the case of a rule is, and how it is measured."""

from __future__ import annotations

import atexit
import gc
import importlib
import pkgutil
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.alone import run_alone
from benchmarks.measuring import reordered
from benchmarks.peak import PeakMeter, resident_bytes

__all__ = ["RuleCase", "RuleResult", "all_rule_cases", "measure_rule"]

_TURN_SECONDS = 0.5


@dataclass(frozen=True)
class RuleCase:
    """A pipeline, as a user would write it, on which one rule alone shows what it buys.

    Attributes:
        rule: the name of the rule.
        title: what the pipeline does, in a few words.
        buys: ``"epoch"`` (seconds of an epoch after the first), ``"first element"`` (seconds from a new iterator to
            its first element), ``"memory"`` (peak bytes during an epoch, in a process of its own) or ``"distinct"``
            (different elements among those of an epoch).
        make: makes the dataset; called for each side, and again in each new process.
        elements: how many elements of a dataset without end are an epoch.
        step_seconds: what the consumer does with each element, as an accelerator would: it costs no CPU.
        ram_budget: bytes that autopipe may fill, where it is not what the machine has left.
        disk: whether it may keep caches in a folder.
    """

    rule: str
    title: str
    buys: Literal["epoch", "first element", "memory", "distinct"]
    make: Callable[[], Any]
    elements: int | None = None
    step_seconds: float = 0.0
    ram_budget: int | None = None
    disk: bool = False


@dataclass(frozen=True)
class RuleResult:
    """How many times better the pipeline is with the rule; no ratios where the rule refused, and why."""

    case: RuleCase
    ratios: tuple[float, ...]
    refusal: str = ""

    def __str__(self) -> str:
        """Return the median over rounds, and its extremes."""
        if not self.ratios:
            return f"refused: {self.refusal}"
        return f"{statistics.median(self.ratios):.2f} ({min(self.ratios):.2f}-{max(self.ratios):.2f})"


def all_rule_cases() -> tuple[RuleCase, ...]:
    """Return the case of every rule, by name: each module of this package holds one."""
    package = importlib.import_module("benchmarks.rules")
    names = sorted(each.name for each in pkgutil.iter_modules(package.__path__) if each.name[0] != "_")
    return tuple(importlib.import_module(f"benchmarks.rules.{name}").CASE for name in names)


def measure_rule(case: RuleCase, rounds: int = 11) -> RuleResult:
    """Measure a pipeline without and with one rule, in turn."""
    if case.buys == "memory":
        pairs = [(run_alone(_peak, case.rule, ()), run_alone(_peak, case.rule, (case.rule,))) for _ in range(rounds)]
        return RuleResult(case, tuple(before / after for before, after in pairs))
    before, after = _dataset(case, ()), _dataset(case, (case.rule,))
    if case.rule not in after.plan.rules:
        refusals = [each["reason"] for each in after.explain().to_dict()["refusals"]]
        return RuleResult(case, (), "; ".join(refusals) or "it does not match")
    cost = _COSTS[case.buys]
    cost(before, case), cost(after, case)
    ratios = []
    for number in range(rounds):
        costs = {id(side): cost(side, case) for side in reordered((before, after), number)}
        ratios.append(costs[id(before)] / costs[id(after)])
    return RuleResult(case, tuple(ratios))


def _dataset(case: RuleCase, rules: tuple[str, ...]) -> Any:
    import autopipe

    folder = folder_until_end() if case.disk else None
    dataset = autopipe.optimize(case.make(), rules=rules, ram_budget=case.ram_budget, disk_cache=folder)
    return dataset if case.elements is None else _Limited(dataset, case.elements)


def folder_until_end() -> str:
    """Return a new folder, which is removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="autopipe.")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class _Limited:
    """The first elements of a dataset without end."""

    def __init__(self, dataset: Any, elements: int) -> None:
        self._epoch = dataset.take(elements)
        self.plan, self.explain = dataset.plan, dataset.explain

    def __iter__(self) -> Any:
        return iter(self._epoch)


def _seconds_of_epoch(dataset: Any, case: RuleCase) -> float:
    """Return the mean of as many epochs as a turn takes: two threads may share a core for the whole of a short one."""
    began, epochs = time.perf_counter(), 0
    while epochs == 0 or time.perf_counter() - began < _TURN_SECONDS:
        for _ in dataset:
            time.sleep(case.step_seconds)
        epochs += 1
    return (time.perf_counter() - began) / epochs


def _seconds_to_first(dataset: Any, case: RuleCase) -> float:
    began = time.perf_counter()
    next(iter(dataset))
    return time.perf_counter() - began


def _share_seen_before(dataset: Any, case: RuleCase) -> float:
    """Return the elements of an epoch for each one that was not seen in it before."""
    elements = [element.numpy().tobytes() for element in dataset]
    return len(elements) / len(set(elements))


_COSTS: dict[str, Callable[[Any, RuleCase], float]] = {
    "epoch": _seconds_of_epoch,
    "first element": _seconds_to_first,
    "distinct": _share_seen_before,
}


def _peak(name: str, rules: tuple[str, ...]) -> int:
    """Return the bytes an epoch adds to this process at its peak."""
    (case,) = (case for case in all_rule_cases() if case.rule == name)
    dataset = _dataset(case, rules)
    gc.collect()
    start = resident_bytes()
    with PeakMeter() as meter:
        _seconds_of_epoch(dataset, case)
    return meter.peak_bytes - start
