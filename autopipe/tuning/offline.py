"""Tuning without the user's training script: a stand-in consumes the pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autopipe.planning.plan import Plan
from autopipe.tuning.search import Trial

if TYPE_CHECKING:
    from autopipe.runtime import OptimizedDataset

__all__ = ["tune"]


def tune(
    dataset: OptimizedDataset,
    *,
    model: Any = None,
    step_seconds: float | None = None,
    trials: int = 12,
    seconds: float = 60.0,
    on_trial: Callable[[Trial], None] | None = None,
) -> Plan:
    """Search the knobs of a pipeline while a consumer reads it, and leave the best in it.

    Args:
        dataset: what ``autopipe.optimize`` returned.
        model: a compiled Keras model: the consumer is its real training step. Its weights change.
        step_seconds: without a model, the time a stand-in takes for a step; ``None`` reads as fast as it can.
        trials: challengers to measure at the most.
        seconds: time to spend at the most; a step under way is finished.
        on_trial: told of each trial.

    Returns:
        The plan: the rules applied, the best knobs, and what was measured.

    >>> import autopipe, tensorflow as tf
    >>> dataset = autopipe.optimize(tf.data.Dataset.range(64).batch(4))
    >>> plan = tune(dataset, trials=1, seconds=5)
    >>> plan.knobs == dataset.knobs
    True
    """
    from autopipe.callbacks import PipelineTuner

    objective = "rate" if model is None and step_seconds is None else "auto"
    tuner = PipelineTuner(trials=trials, objective=objective, verbose=0, on_trial=on_trial)
    deadline = time.monotonic() + seconds
    if model is None:
        _consume(dataset, tuner, step_seconds or 0.0, deadline)
    else:
        _train(dataset, tuner, model, deadline)
    plan = tuner.plan or dataset.plan
    return replace(plan, knobs=dataset.knobs)


def _consume(dataset: OptimizedDataset, tuner: Any, step_seconds: float, deadline: float) -> None:
    """Read epoch after epoch as a training loop does, telling the tuner what Keras would."""
    tuner.on_train_begin()
    tuner.set_params({"epochs": 2})
    epoch = 0
    try:
        while not _is_over(tuner, deadline):
            tuner.on_epoch_begin(epoch)
            steps = _read_epoch(dataset, tuner, step_seconds, deadline)
            tuner.on_epoch_end(epoch)
            epoch += 1
            if not steps:
                return
    finally:
        tuner.on_train_end()


def _read_epoch(dataset: OptimizedDataset, tuner: Any, step_seconds: float, deadline: float) -> int:
    steps = 0
    for _ in dataset:
        if step_seconds:
            time.sleep(step_seconds)
        tuner.on_train_batch_end(steps)
        steps += 1
        if _is_over(tuner, deadline):
            break
    return steps


def _train(dataset: OptimizedDataset, tuner: Any, model: Any, deadline: float) -> None:
    import keras

    class Stop(keras.callbacks.Callback):  # type: ignore[misc]
        """Ends training when the tuner is done or the time is up."""

        def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
            self.model.stop_training = _is_over(tuner, deadline)

    # Keras looks at stop_training between epochs; endless epochs of a few steps let it look often.
    endless = int(dataset.cardinality()) < 0
    model.fit(
        dataset,
        epochs=1_000_000,
        steps_per_epoch=64 if endless else None,
        shuffle=False,
        verbose=0,
        callbacks=[tuner, Stop()],
    )


def _is_over(tuner: Any, deadline: float) -> bool:
    return (tuner.search is not None and tuner.search.finished) or time.monotonic() > deadline
