"""The consumer of a pipeline, and how fast it would be if elements cost nothing."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Any, Protocol

import tensorflow as tf

from autopipe.errors import ArgumentError, DatasetError

__all__ = ["Consumer", "ModelSteps", "Pace", "StandIn", "measure_pace"]

# In the first steps buffers fill, a step function is traced, and an optimizer's variables are made.
_SKIPPED_STEPS = 2
# A turn of whole epochs may last at most this many times as long as asked.
_LATE = 32
# Some releases of Keras check stop_training only between epochs.
_STEPS_PER_EPOCH = 64
_GIVES_NONE_AGAIN = (
    "A dataset must give its elements as often as it is read, but this one gave no more. "
    "If it reads a generator, pass from_generator() a function that makes a new one, not the generator itself."
)


class Consumer(Protocol):
    """Something that reads a dataset in steps."""

    def steps_per_second(self, dataset: Any, seconds: float, *, whole_epochs: bool = False) -> float:
        """Read a dataset for some time, again and again if it is short, and return the rate of steps.

        Args:
            dataset: a ``tf.data.Dataset`` with elements.
            seconds: how long, at least.
            whole_epochs: whether to go on to the end of the epoch, unless that takes very long, and count the time that
                each epoch takes to start.
        """
        ...

    def endless(self, dataset: Any) -> Any:
        """Return the dataset that is read if epochs are not read as a whole."""
        ...


@dataclass(frozen=True)
class StandIn:
    """A consumer that takes the same time for every step.

    >>> import tensorflow as tf
    >>> 50 < StandIn(0.005).steps_per_second(tf.data.Dataset.range(1000), seconds=0.5) <= 200
    True
    """

    step_seconds: float

    def steps_per_second(self, dataset: Any, seconds: float, *, whole_epochs: bool = False) -> float:
        """Sleep for each element."""
        clock = _Clock(seconds, skipped=0 if whole_epochs else _SKIPPED_STEPS)
        while not clock.is_over:
            before = clock.steps
            for _ in dataset:
                time.sleep(self.step_seconds)
                clock.step_ended()
                if clock.is_late if whole_epochs else clock.is_over:
                    break
            if clock.steps == before:
                raise DatasetError(_GIVES_NONE_AGAIN)
        return clock.rate

    def endless(self, dataset: Any) -> Any:
        """Return the dataset itself, which is read again and again."""
        return dataset


@dataclass(frozen=True)
class ModelSteps:
    """The training steps of a compiled Keras model as the consumer of a pipeline; the model's weights change.

    Args:
        model: a compiled ``keras.Model`` that ``fit`` can train from the elements.

    Raises:
        ArgumentError: if it is not one.

    >>> import autopipe, keras, tensorflow as tf
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> data = tf.data.Dataset.from_tensors(([[1.0]], [[2.0]])).repeat(64)
    >>> account = autopipe.explain(data, seconds=0.5, consumer=autopipe.ModelSteps(model), measuring_seconds=0)
    >>> 0 <= account.diagnosis.waiting <= 1
    True
    """

    model: Any

    def __post_init__(self) -> None:
        if not callable(getattr(self.model, "fit", None)) or not getattr(self.model, "compiled", False):
            raise ArgumentError(
                f"model must be a compiled Keras model, but got {shortened(self.model)}. "
                'Compile it first, as with model.compile("adam", "mse").'
            )

    def steps_per_second(self, dataset: Any, seconds: float, *, whole_epochs: bool = False) -> float:
        """Train; the time of the first steps, in which the step is traced, counts only in whole epochs."""
        import keras

        # With JAX, self.model of a callback is slow in each step.
        model = self.model
        steps = max(int(getattr(model, "steps_per_execution", 1) or 1), 1)
        clock = _Clock(seconds, skipped=0 if whole_epochs else _SKIPPED_STEPS * steps)

        class Stop(keras.callbacks.Callback):  # type: ignore[misc]
            """Counts steps, and ends training when the time is up."""

            def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
                clock.start()

            def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
                clock.step_ended(steps)
                if clock.is_late if whole_epochs else clock.is_over:
                    model.stop_training = True

            def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
                self._before = clock.steps

            def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
                if clock.is_over or clock.steps == self._before:
                    model.stop_training = True

        with warnings.catch_warnings():
            # Keras warns of every dataset with an unknown number of elements.
            warnings.filterwarnings("ignore", "Your input ran out of data", UserWarning)
            model.fit(
                dataset if whole_epochs else self.endless(dataset),
                steps_per_epoch=None if whole_epochs else _STEPS_PER_EPOCH * steps,
                epochs=1_000_000,
                shuffle=False,
                verbose=0,
                callbacks=[Stop()],
            )
        if not clock.is_over:
            raise DatasetError(_GIVES_NONE_AGAIN)
        return clock.rate

    def endless(self, dataset: Any) -> Any:
        """Return the dataset repeated: Keras would let another iterator begin each of its epochs."""
        return dataset.repeat()


@dataclass(frozen=True)
class Pace:
    """How fast a consumer takes elements.

    Attributes:
        rate: steps per second with the pipeline.
        free_rate: steps per second if input cost nothing: on one element from memory, again and again.
    """

    rate: float
    free_rate: float


def measure_pace(consumer: Consumer, dataset: Any, seconds: float) -> Pace:
    """Let a consumer read a pipeline, and then one element of it again and again, half of the time each.

    Args:
        consumer: what reads the pipeline.
        dataset: a ``tf.data.Dataset`` with elements.
        seconds: how long, not counting the first steps.

    Raises:
        DatasetError: if ``dataset`` has no elements.
    """
    one = next(iter(dataset), None)
    if one is None:
        raise DatasetError(
            "A dataset must have elements to be read in steps, but the one received gave none. Check what it reads, "
            "and its filters."
        )
    free = tf.data.Dataset.from_tensors(one).repeat().prefetch(1)
    return Pace(consumer.steps_per_second(dataset, seconds / 2), consumer.steps_per_second(free, seconds / 2))


class _Clock:
    """Counts steps for some seconds, leaving out the first ones.

    Attributes:
        steps: how many have ended; below 0 during the first ones.
    """

    def __init__(self, seconds: float, skipped: int = _SKIPPED_STEPS) -> None:
        self._seconds = seconds
        self.steps = -skipped
        self.start()

    def start(self) -> None:
        """Begin to count time."""
        self._began = self._now = time.perf_counter()

    def step_ended(self, steps: int = 1) -> None:
        """Count a step, or several that end together."""
        self.steps += steps
        self._now = time.perf_counter()
        if self.steps <= 0:
            self._began = self._now

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.steps > 0 and self._now - self._began >= self._seconds

    @property
    def is_late(self) -> bool:
        """Whether the time was exceeded so far that even a whole epoch need not be completed."""
        return self.steps > 0 and self._now - self._began >= _LATE * self._seconds

    @property
    def rate(self) -> float:
        return self.steps / (self._now - self._began)
