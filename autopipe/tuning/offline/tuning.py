"""Tuning without the user's training script: a consumer reads the pipeline, and Optuna chooses what it reads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from autopipe.arguments import function, number, whole_number
from autopipe.errors import ArgumentError
from autopipe.planning.costs.consumer import Consumer, ModelSteps, StandIn
from autopipe.planning.memory.machine import Machine
from autopipe.planning.plans.plan import Plan
from autopipe.tuning.offline.choices import Choice, Choices
from autopipe.tuning.offline.session import Session
from autopipe.tuning.offline.structures import OPTIMIZED
from autopipe.tuning.offline.workbench import LocalWorkbench, Workbench
from autopipe.tuning.search.trial import Trial
from autopipe.tuning.studies import open_study, quiet_optuna, reaching_storage

if TYPE_CHECKING:
    from autopipe.runtime.dataset import OptimizedDataset
    from autopipe.search_spaces import SearchSpace

__all__ = ["TURN_SECONDS", "tune", "tune_choices"]

TURN_SECONDS = 0.25
# The share of the time that is reserved for comparing the best again.
_FOR_FINAL = 0.3


def tune(
    dataset: OptimizedDataset,
    *,
    model: Any = None,
    step_seconds: float | None = None,
    trials: int = 12,
    seconds: float = 60.0,
    space: SearchSpace | str | os.PathLike[str] = "default",
    on_trial: Callable[[Trial], None] | None = None,
) -> Plan:
    """Search the numbers with which a consumer makes the most steps per second, and leave them in the pipeline.

    Args:
        dataset: what ``autopipe.optimize`` returned.
        model: a compiled Keras model: the consumer is its real training step. Its weights change.
        step_seconds: without a model, the time a stand-in takes for a step; ``None`` reads as fast as it can.
        trials: how many settings to try.
        seconds: time for trials, at most; a trial under way is finished.
        space: what the knobs may be: a space of ``autopipe.search_spaces``, or its name.
        on_trial: called with each trial.

    Returns:
        The plan: the rules applied, the best knobs, and what was measured.

    Raises:
        ArgumentError: if an argument breaks its law.
        SearchError: if trials failed, and no trial came to an end.

    >>> import autopipe, tensorflow as tf
    >>> dataset = autopipe.optimize(tf.data.Dataset.range(64).batch(4))
    >>> plan = tune(dataset, trials=1, seconds=5)
    >>> plan.knobs == dataset.knobs
    True
    """
    from autopipe.runtime.dataset import OptimizedDataset
    from autopipe.search_spaces import by_name

    if not isinstance(dataset, OptimizedDataset):
        raise ArgumentError(f"dataset must be what autopipe.optimize() returned, but got {dataset!r}.")
    if model is not None and step_seconds is not None:
        raise ArgumentError("step_seconds must be of a stand-in for a model, but got a model too. Give one of the two.")
    trials, seconds = whole_number("trials", trials), number("seconds", seconds)
    function("on_trial", on_trial, "a trial")
    step = number("step_seconds", 0.0 if step_seconds is None else step_seconds, finite=True)
    consumer: Consumer = StandIn(step) if model is None else ModelSteps(model)
    choices = Choices.of(dataset, by_name(space))
    return tune_choices(choices, consumer, trials=trials, seconds=seconds, on_trial=on_trial)


def tune_choices(
    choices: Choices,
    consumer: Consumer | None,
    *,
    trials: int = 40,
    seconds: float = 120.0,
    study: Any = None,
    workbench: Workbench | None = None,
    on_trial: Callable[[Trial], None] | None = None,
) -> Plan:
    """Search the structure and the numbers with which a consumer makes the most steps per second.

    Each trial is compared with the pipeline as it is given, in alternating turns. The best few are compared again at
    the end; if none of them wins, the pipeline stays as it was.

    Args:
        choices: what to choose among.
        consumer: what reads the pipelines in this process; ``None`` for one that reads as fast as it can, or if a
            workbench has its own.
        trials: how many must end in the study, in all processes together.
        seconds: time for trials, at most; a trial under way is finished. Filling caches takes additional time.
        study: an Optuna study, also one that other processes share; by default one in memory.
        workbench: where settings are compared; by default in this process.
        on_trial: called with each trial that comes to an end here.

    Returns:
        The plan of the best: its rules, its knobs, and what was measured.

    Raises:
        ArgumentError: if the study chose among something else before.
        SearchError: if trials failed, and no trial came to an end.
        StorageError: if its storage cannot be reached any more.
    """
    given = choices.given
    if choices.none or next(iter(choices.datasets[OPTIMIZED]), None) is None:
        return _plan(choices, given, given, {})
    bench = workbench or LocalWorkbench(choices, consumer or StandIn(0.0), TURN_SECONDS)
    session = Session(choices, given, bench, study or open_study(), on_trial)
    try:
        with quiet_optuna(), reaching_storage():
            session.search(trials, time.monotonic() + seconds * (1 - _FOR_FINAL))
            chosen, found = session.final(time.monotonic() + seconds * _FOR_FINAL)
    except BaseException:
        # The dataset may have the knobs of a challenger.
        choices.datasets[OPTIMIZED].retune(given.knobs)
        raise
    return _plan(choices, given, chosen, found)


def _plan(choices: Choices, given: Choice, choice: Choice, measured: Mapping[str, Any]) -> Plan:
    """Return the plan of a choice; the given pipeline gets these knobs if the choice is of its structure."""
    dataset = choices.datasets[choice.structure]
    choices.datasets[OPTIMIZED].retune(choice.knobs if choice.structure == OPTIMIZED else given.knobs)
    return replace(dataset.plan, knobs=dict(choice.knobs), machine=asdict(Machine.here()), measured=dict(measured))
