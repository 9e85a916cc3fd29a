"""How long the consumer of a pipeline waits for it, measured inside the pipeline.

Keras fetches its next batch inside the compiled step, where no callback sees it. TensorFlow has a stage that adds up
how long each element takes to come. It was behind ``tf.data.experimental.latency_stats``, of which the raw operations
are left. It calls no function: two of them, for a clock and a sum, would take 20 to 50 us of a step. Parallel maps add
their own figures to it, which takes at most 1 us for a call of 15 us.
"""

import itertools
import weakref
from copy import copy
from typing import Any, ClassVar

import tensorflow as tf

from autopipe.pipeline.extract import element_shapes, element_types
from autopipe.telemetry._base import StallReading

__all__ = ["StallCounter", "metered"]

_TAG = "autopipe_input_stall"


class StallCounter:
    """Adds up the waiting for the `metered` datasets that it was given to.

    One counter may serve several datasets, such as those that follow one another in a live iterator.

    >>> StallCounter().read()
    StallReading(waiting_seconds=0.0, batches=0)
    """

    def __init__(self) -> None:
        self._aggregator = _Aggregator()
        self._before = self._aggregator.read()
        self._last: StallReading | None = None

    def read(self) -> StallReading:
        """Return the sums since the counter was made; the difference of two readings is what lay between."""
        return self._last or self._since_before(self._aggregator.read())

    def hand_on(self) -> "StallCounter":
        """Return a counter that takes over from now on; this one keeps its sums.

        >>> import tensorflow as tf
        >>> counter = StallCounter()
        >>> dataset = metered(tf.data.Dataset.range(3), counter, inner_prefetch=False)
        >>> first = next(iter(dataset))
        >>> other = counter.hand_on()
        >>> rest = list(dataset)
        >>> counter.read().batches, other.read().batches
        (1, 3)
        """
        made = copy(self)
        made._before = self._aggregator.read()
        self._last = self._since_before(made._before)
        return made

    @property
    def handle(self) -> Any:
        """TensorFlow's resource that adds up the waiting."""
        return self._aggregator.handle

    def _since_before(self, sums: tuple[float, int]) -> StallReading:
        return StallReading(sums[0] - self._before[0], sums[1] - self._before[1])


class _Aggregator:
    """TensorFlow's histogram of latencies. It is never freed, so one that is no longer referenced is reused."""

    _unused: ClassVar[list[Any]] = []
    _numbers: ClassVar[Any] = itertools.count()

    def __init__(self) -> None:
        try:
            self.handle = self._unused.pop()
        except IndexError:
            with tf.device("CPU:0"):
                self.handle = tf.raw_ops.StatsAggregatorHandle(shared_name=f"{_TAG}_{next(self._numbers)}")
        weakref.finalize(self, self._unused.append, self.handle).atexit = False

    def read(self) -> tuple[float, int]:
        """Return the seconds waited and the number of batches, both at the same moment."""
        encoded = tf.raw_ops.StatsAggregatorSummary(iterator=self.handle).numpy()
        # Other stages add their own figures.
        for each in tf.compat.v1.Summary.FromString(encoded).value:
            if each.tag == _TAG:
                return each.histo.sum / 1e6, round(each.histo.num)
        return 0.0, 0


def metered(dataset: tf.data.Dataset, counter: StallCounter, *, inner_prefetch: bool) -> tf.data.Dataset:
    """Return the same elements in the same order, and add the time each was waited for to ``counter``.

    The structure of the elements, their specs and the cardinality stay the same. The wait for the end of the
    sequence is not counted. Nothing is traced.

    Args:
        dataset: any dataset.
        counter: adds up the seconds, in whole microseconds.
        inner_prefetch: whether TensorFlow would end ``dataset`` with a prefetch of its own. That must be
            off for the whole pipeline here (a prefetch behind the meter would hide the waiting), so where it
            would have stood, this puts one.

    >>> import tensorflow as tf
    >>> counter = StallCounter()
    >>> dataset = metered(tf.data.Dataset.range(3), counter, inner_prefetch=True)
    >>> [int(x) for x in dataset], counter.read().batches
    ([0, 1, 2], 3)
    """
    if inner_prefetch:
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
    flat = {"output_types": element_types(dataset), "output_shapes": element_shapes(dataset)}
    timed = tf.raw_ops.LatencyStatsDataset(input_dataset=tf.data.experimental.to_variant(dataset), tag=_TAG, **flat)
    told = tf.raw_ops.SetStatsAggregatorDataset(
        input_dataset=timed, stats_aggregator=counter.handle, tag="", counter_prefix="", **flat
    )
    made = tf.data.experimental.from_variant(told, dataset.element_spec)
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    made = made.with_options(options)
    # TensorFlow frees the functions of an unreferenced dataset; the counter must not serve another meanwhile.
    made._autopipe_meter = (dataset, counter)
    return made
