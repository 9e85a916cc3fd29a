from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import compress, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autopipe.cli._failures import running_users_pipeline, save_plan
from autopipe.cli._options import Arguments, Target, finite, parse_arguments
from autopipe.cli.targets import load_dataset
from autopipe.errors import PlanError
from autopipe.quiet import load_tensorflow

if TYPE_CHECKING:
    from collections.abc import Callable

    from autopipe.pipeline import ir
    from autopipe.planning.plans.plan import Plan
    from autopipe.runtime.dataset import OptimizedDataset

__all__ = ["check"]

_SLOWER = 1
_FEWEST = 5
# A comparison of two pipelines takes up to three seconds itself.
_COMPARISON_SECONDS = 1.0


@dataclass(frozen=True)
class Ratio:
    """How many times as fast as written a pipeline is, as a plan stores it.

    Attributes:
        median: of all comparisons.
        low: the lower end of a 95% confidence interval of the median.
        high: its upper end.
        comparisons: how many there were.
        cores: the cores they were made on.
        host: the machine.
    """

    median: float
    low: float
    high: float
    comparisons: int = 1
    cores: float | None = None
    host: str = ""

    def __str__(self) -> str:
        return f"{self.median:.2f}x ({self.low:.2f} to {self.high:.2f})"


def check(
    target: Target,
    plan: Annotated[
        Path, typer.Option("--plan", metavar="FILE", help="The plan that is stored beside the code.", dir_okay=False)
    ],
    *,
    arg: Arguments = None,
    margin: Annotated[
        float, typer.Option(min=0, max=1, callback=finite, help="The share of the stored ratio that may be lost.")
    ] = 0.1,
    seconds: Annotated[
        float,
        typer.Option(
            min=0, callback=finite, help="About how long to compare at most; filling caches takes additional time."
        ),
    ] = 10.0,
    update: Annotated[bool, typer.Option("--update", help="Store the ratio measured now in the plan.")] = False,
) -> None:
    """Exit with 1 if a pipeline with its plan became slower compared to the pipeline as written, or is another one.

    Both are measured in turns in one run, so that a slow machine does not matter. The stored ratio and the new one are
    intervals, which noise widens: the pipeline counts as slower only if the new one is entirely below what is allowed.
    """
    arguments = parse_arguments(arg)
    # What is loaded may go to another folder.
    file = plan.absolute()
    from autopipe.planning.plans.plan import Plan

    given = Plan.load(plan)
    if update and not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)):
        raise typer.BadParameter(f"must be a file that can be written to, but got {plan}.", param_hint="--plan")
    stored = _stored(given, plan)
    load_tensorflow()
    import autopipe
    from autopipe.planning.memory.machine import Machine

    written = load_dataset(target, arguments)
    here = Machine.here()
    comparable = stored if stored and stored.cores in (None, here.cores) else None
    least = (1 - margin) * (comparable.low if comparable else 1.0)
    with running_users_pipeline(target):
        dataset = autopipe.optimize(written, plan=given)
        # A ratio to store is worth all the time given.
        found = replace(_measured(dataset, seconds, math.inf if update else least), cores=here.cores, host=here.host)
    slower = found.high < least and not update
    if update:
        save_plan(replace(given, measured={**given.measured, "ratio": asdict(found)}), file)
    measured = f"{found} as fast as written in {found.comparisons} comparisons"
    verdict = "slower" if slower else "stored in it" if update else "holds"
    typer.echo(f"{measured}; {_asked(stored, comparable, margin, here.cores)}: {verdict}")
    _note_refused(dataset)
    if slower:
        raise typer.Exit(_SLOWER)


def _asked(stored: Ratio | None, comparable: Ratio | None, margin: float, cores: float) -> str:
    """Say what the ratio is compared with."""
    otherwise = f"so {1 - margin:.2f}x is asked for"
    if comparable:
        return f"the plan has {comparable}, of which {margin:.0%} may be lost"
    if stored:
        return f"the plan has {stored}, but from {stored.cores:g} cores, and here are {cores:g}, {otherwise}"
    return f"the plan has no such ratio (--update stores one), {otherwise}"


def _note_refused(dataset: OptimizedDataset) -> None:
    carried = dataset.plan.carried
    if carried and carried.refused:
        typer.echo(f"note: rules of the plan that were refused here: {', '.join(carried.refused)}", err=True)


def _stored(plan: Plan, where: Path) -> Ratio | None:
    """Return the ratio in a plan, if it has one.

    Raises:
        PlanError: if it is none that ``--update`` stores.
    """
    from autopipe.planning.plans.plan import MAKING_PLANS

    ratio = plan.measured.get("ratio")
    if ratio is None:
        return None
    numbers = [ratio.get(name) for name in ("median", "low", "high", "cores")] if isinstance(ratio, Mapping) else [None]
    if not all(isinstance(number, int | float) and number > 0 for number in numbers):
        raise PlanError(
            f"A plan's ratio must have a median, low, high and cores above 0, but in {where} it is {ratio!r:.80}. "
            f"Remove it, or make a new plan with: {MAKING_PLANS}"
        )
    return Ratio(**{name: ratio[name] for name in ("median", "low", "high", "cores")})


def _measured(dataset: OptimizedDataset, seconds: float, least: float) -> Ratio:
    """Compare a pipeline with what it was, until it is surely not slower, or the time is up.

    A few comparisons never show that it is slower: on a busy machine two or three are easily wrong.
    """
    from autopipe.rules import MeasurementError

    written, run = dataset.explain().rewriting.before, dataset.tree
    ratios: list[float] = []
    end = time.monotonic() + seconds
    with _comparing(written, run) as compare:
        while not _is_decided(ratios, least, time_is_up=time.monotonic() >= end):
            try:
                ratios.append(compare())
            except MeasurementError as failed:
                if len(ratios) < _FEWEST:
                    raise PlanError(
                        f"A pipeline must be read several times to be compared, but this one was not ({failed}). Fix "
                        "what fails in it; single bad elements can be left out with ignore_errors()."
                    ) from failed
                break
    return _around_median(ratios)


def _is_decided(ratios: list[float], least: float, time_is_up: bool) -> bool:
    if len(ratios) < 2:
        return False
    found = _around_median(ratios)
    if len(ratios) < _FEWEST:
        return time_is_up and found.high >= least
    return time_is_up or found.low >= least


def _around_median(ratios: list[float]) -> Ratio:
    """Return the median, and the order statistics between which the true one lies nineteen times in twenty."""
    from autopipe.planning.measuring.stopwatch import around_median

    # Rounded outwards: of few ratios, one place less would be right less often than that.
    return Ratio(*around_median(ratios, spread=0.98 * len(ratios) ** 0.5 + 0.5), len(ratios))


@contextmanager
def _comparing(before: ir.Node, after: ir.Node) -> Iterator[Callable[[], float]]:
    """Yield a function that compares two pipelines once as in later epochs, on a sample that can be taken unnoticed."""
    from autopipe.planning.measuring.measure import SampleMeasurements
    from autopipe.rules import MeasurementError

    measurements = SampleMeasurements()
    try:
        measurements.whole_speed(before, after)
    except MeasurementError:
        with _reading(before, after) as compare:
            yield compare
    else:
        yield lambda: measurements.whole_speed(before, after)[0]


@contextmanager
def _reading(before: ir.Node, after: ir.Node) -> Iterator[Callable[[], float]]:
    """Yield a function that compares two pipelines by reading them, with caches filled."""
    from autopipe.pipeline import ir, trees
    from autopipe.planning.costs.own_caches import OwnCaches
    from autopipe.planning.measuring.stopwatch import compare_speeds
    from autopipe.planning.measuring.turns import taking_turns

    with OwnCaches(before) as old, OwnCaches(after) as new:
        run = old.moved(before), new.moved(after)
        sides = [taking_turns(ir.Repeat(input=tree)) for tree in run]
        cached = [any(trees.keeping(tree)) for tree in run]
        epoch = _elements_in_epoch(old.build(before), before) if any(cached) else 0
        for side in compress(sides, cached):
            for _ in islice(side, epoch + 1):
                pass
        yield lambda: compare_speeds(sides[0], sides[1], _COMPARISON_SECONDS)[0]


def _elements_in_epoch(dataset: Any, tree: ir.Node) -> int:
    """Return how many elements a dataset has; where TensorFlow does not know, they are read. Endless ones have none."""
    from autopipe.planning.measuring.whole_epochs import elements_of_epoch

    known = int(dataset.cardinality())
    return known if known >= 0 else elements_of_epoch(dataset, tree) or 0
