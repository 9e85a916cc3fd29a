from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from autopipe.arguments import MOST_SEED
from autopipe.cli._failures import running_users_pipeline, save_plan
from autopipe.cli._options import (
    Arguments,
    KeepsOption,
    ModelOption,
    Promise,
    Pruner,
    Sampler,
    StepOption,
    Target,
    consumer_of,
    finite,
    parse_arguments,
    refuse_both,
)
from autopipe.cli.targets import UserCodeError, anchored, load_dataset, load_target
from autopipe.errors import ArgumentError
from autopipe.quiet import load_tensorflow

if TYPE_CHECKING:
    from autopipe.planning.costs.consumer import Consumer
    from autopipe.planning.plans.plan import Plan
    from autopipe.runtime.dataset import OptimizedDataset
    from autopipe.tuning.offline.choices import Choices
    from autopipe.tuning.offline.workbench import Workbench
    from autopipe.tuning.search.trial import Trial

__all__ = ["tune"]

_Made = TypeVar("_Made")
_MINUTE = 60.0
# The longest timeout, well within the milliseconds that the system can wait at once.
_MOST_ISOLATED = 86_400.0


def tune(
    target: Target,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", dir_okay=False, help="Where the plan is written.")
    ],
    *,
    arg: Arguments = None,
    model: ModelOption = None,
    step_ms: StepOption = None,
    trials: Annotated[int, typer.Option(min=1, help="Settings to try, in all processes that share the study.")] = 40,
    seconds: Annotated[
        float, typer.Option(min=0, callback=finite, help="The most time for trials; filling caches is not counted.")
    ] = 120.0,
    minutes: Annotated[
        float | None,
        typer.Option(min=0, callback=finite, help="The same in minutes; overrides --seconds.", show_default=False),
    ] = None,
    space: Annotated[
        str, typer.Option(help="A search space by its name ([bold]autopipe spaces[/] lists them), or a TOML file.")
    ] = "default",
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the study is kept, for resuming and for sharing: sqlite:///study.db, postgresql://..., "
            "any other URL that Optuna takes, or journal:FILE.",
            show_default=False,
        ),
    ] = None,
    study: Annotated[str | None, typer.Option(help="The name of the study; by default that of the target.")] = None,
    sampler: Annotated[Sampler, typer.Option(help="How Optuna proposes.")] = Sampler.TPE,
    pruner: Annotated[Pruner, typer.Option(help="How it ends a trial early.")] = Pruner.MEDIAN,
    seed: Annotated[int | None, typer.Option(min=0, max=MOST_SEED, help="For the sampler.", show_default=False)] = None,
    numbers_only: Annotated[
        bool, typer.Option("--numbers-only", help="Search parallel calls and buffers, not which rules are applied.")
    ] = False,
    isolate: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=1,
            max=_MOST_ISOLATED,
            callback=finite,
            help="Run each trial in a separate process and kill it after this many seconds: if it takes all memory or "
            "hangs, only that trial fails.",
            show_default=False,
        ),
    ] = None,
    keeps: KeepsOption = Promise.TRAINING,
) -> None:
    """Search for the best structure and numbers for a pipeline on this machine, and write them to a plan."""
    arguments = parse_arguments(arg)
    refuse_both(model, step_ms)
    _refuse_unwritable(output)
    # What is loaded may go to another folder.
    file, where, of_model = output.absolute(), anchored(target), model and anchored(model)
    chosen_space = os.path.abspath(space) if space.endswith(".toml") else space
    load_tensorflow()
    if isolate is not None:
        _leave_gpus_to_trials()
    from autopipe.tuning.offline.agreement import agreed_pipelines
    from autopipe.tuning.offline.tuning import tune_choices
    from autopipe.tuning.studies import open_study

    _refuse_unknown_space(chosen_space)
    shared = open_study(study or target, storage, sampler=sampler.value, pruner=pruner.value, seed=seed)
    consume = partial(consumer_of, of_model, step_ms)
    budget = seconds if minutes is None else minutes * _MINUTE
    # Elsewhere goes what the user's code prints.
    console = Console(file=sys.stdout)
    with running_users_pipeline(target if model is None else f"{target} or {model}"):
        dataset = load_dataset(target, arguments) if isolate is None else _fit_to_isolate(target, arguments, of_model)
        pipelines = agreed_pipelines(
            shared, dataset, keeps=keeps.value, numbers_only=numbers_only, consumer=_told(of_model, step_ms)
        )
        choices = _among(pipelines, chosen_space)
        make = partial(_choices, where, arguments, {name: each.plan for name, each in pipelines.items()}, chosen_space)
        consumer, bench = (consume(), None) if isolate is None else (None, _isolated(make, consume, isolate))
        with _told_if_interrupted(storage), _progress(console, trials, budget) as on_trial:
            plan = tune_choices(
                choices,
                consumer,
                trials=trials,
                seconds=budget,
                study=shared,
                workbench=bench,
                on_trial=on_trial,
            )
    save_plan(plan, file)
    console.print(_summary(plan, output), soft_wrap=True, markup=False, highlight=False)


def _refuse_unwritable(output: Path) -> None:
    folder = output.absolute().parent
    if not os.path.isdir(folder):
        raise typer.BadParameter(
            f"must be in a folder that exists, but there is no {str(output.parent)!r}.", param_hint="-o"
        )
    if not os.access(folder, os.W_OK):
        raise typer.BadParameter(f"must be in a folder that can be written to, but got {output}.", param_hint="-o")


def _refuse_unknown_space(space: str) -> None:
    from autopipe.search_spaces import by_name

    try:
        by_name(space)
    except ArgumentError as error:
        raise typer.BadParameter(str(error), param_hint="--space") from None


@contextmanager
def _told_if_interrupted(storage: str | None) -> Iterator[None]:
    from autopipe.tuning.studies import shown

    try:
        yield
    except KeyboardInterrupt:
        kept = (
            "Its trials are gone, since they were in memory: with --storage sqlite:///study.db they are kept."
            if storage is None
            else f"Its trials are in {shown(storage)}: the same command continues from there."
        )
        Console(stderr=True).print(Text(f"The search was interrupted, and no plan is written. {kept}"), soft_wrap=True)
        raise


def _told(model: str | None, step_ms: float | None) -> str:
    """Return the options that say what reads the pipelines, alike on all machines that share a study."""
    if model is not None:
        return f"--model {os.path.basename(model)}"
    return f"--step-ms {step_ms:g}" if step_ms else ""


def _choices(target: str, arguments: dict[str, Any], plans: Mapping[str, Plan], space: str) -> Choices:
    """Make the pipelines to choose among again, in the process of a trial."""
    from autopipe.tuning.offline.structures import as_planned

    return _among(as_planned(load_dataset(target, arguments), plans), space)


def _among(pipelines: Mapping[str, OptimizedDataset], space: str) -> Choices:
    from autopipe.search_spaces import by_name
    from autopipe.tuning.offline.choices import Choices
    from autopipe.tuning.offline.structures import OPTIMIZED

    return Choices.of(pipelines[OPTIMIZED], by_name(space), pipelines)


def _fit_to_isolate(target: str, arguments: dict[str, Any], model: str | None) -> Any:
    """Load a dataset to be read in the processes of trials, and refuse what would make each of them fail."""
    from autopipe.pipeline import trees
    from autopipe.pipeline.cache_files import is_unwritten
    from autopipe.pipeline.extract import extract

    if model is not None:
        # There may be none of that name.
        load_target(model)
    dataset = load_dataset(target, arguments)
    if any(map(is_unwritten, trees.walk_through(extract(dataset)))):
        raise ArgumentError(
            "With --isolate each cache(filename) of a pipeline must be written before, but one here is not: a process "
            "that is killed while it writes leaves a lock, on which all others fail. Read the dataset to its end once."
        )
    return dataset


def _leave_gpus_to_trials() -> None:
    """Keep TensorFlow from taking nearly all of their memory in this process, which uses none of it."""
    import tensorflow as tf

    # Where TensorFlow runs already, as in another program, it is too late.
    with suppress(RuntimeError):
        tf.config.set_visible_devices([], "GPU")


def _isolated(make: Callable[[], Choices], consume: Callable[[], Consumer], timeout: float) -> Workbench:
    from autopipe.tuning.offline.isolation import IsolatedWorkbench, Job
    from autopipe.tuning.offline.session import PAIRS
    from autopipe.tuning.offline.tuning import TURN_SECONDS

    return IsolatedWorkbench(Job(partial(_users, make), partial(_users, consume), TURN_SECONDS, PAIRS), timeout)


def _users(make: Callable[[], _Made]) -> _Made:
    """Make a pipeline or model of the user's in the process of a trial, and report what their code raises."""
    try:
        return make()
    except UserCodeError as error:
        raise (error.__cause__ or error) from None


@contextmanager
def _progress(console: Console, trials: int, seconds: float) -> Iterator[Callable[[Trial], None]]:
    """Show the trials: a bar on a terminal, a line for each elsewhere."""
    best = 1.0

    def follow(trial: Trial) -> str:
        nonlocal best
        best = max(best, 1 + trial.gain) if trial.kept else best
        return f"best so far {best:.2f}x"

    if not console.is_terminal:

        def print_line(trial: Trial) -> None:
            outcome = f"failed: {trial.failure}" if trial.failure else f"{1 + trial.gain:.2f}x"
            # What other processes had begun when the last trial ended is counted as well.
            text = f"trial {trial.number}/{max(trial.number, trials)}: {outcome}, {follow(trial)}: {_setting(trial)}"
            console.print(text, soft_wrap=True, markup=False, highlight=False)

        yield print_line
        return

    columns = (
        TextColumn("Trials"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[best]}", markup=False),
        _TimeLeft(seconds),
        TextColumn("{task.fields[latest]}", style="dim", markup=False),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=trials, best="best so far 1.00x", latest="")

        def move_bar(trial: Trial) -> None:
            ended = trial.number - bool(trial.failure)
            bar.update(task, completed=ended, total=max(ended, trials), best=follow(trial), latest=_setting(trial))

        yield move_bar


class _TimeLeft(TextColumn):
    """Shows what is left of the time to spend."""

    def __init__(self, seconds: float) -> None:
        super().__init__("")
        self.seconds = seconds

    def render(self, task: Any) -> Any:
        left = max(self.seconds - (task.elapsed or 0.0), 0.0)
        self.text_format = f"{left:.0f} s left"
        return super().render(task)


def _setting(trial: Trial) -> str:
    return f"{trial.structure}, {_knobs(trial.knobs)}"


def _summary(plan: Plan, output: Path) -> str:
    from autopipe.report.explanation import trials_text

    measured = plan.measured
    if "after" in measured:
        spread = f"{measured['after']:.2f}x ({measured['lowest']:.2f}-{measured['highest']:.2f})"
        change = f"{spread} the speed of autopipe.optimize() alone, after {trials_text(measured['trials'])}"
    elif "trials" in measured:
        change = f"nothing was found to be faster than autopipe.optimize() alone in {trials_text(measured['trials'])}"
    else:
        change = "there is nothing to choose, or nothing to measure"
    return (
        f"{change}, knobs {_knobs(plan.knobs)}; the plan is in {output}. "
        f'Use it with: autopipe.optimize(dataset, plan="{output}")'
    )


def _knobs(knobs: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in knobs.items()) or "as they are"
