"""How long the consumer of a pipeline waits for it, measured inside the pipeline.

Keras fetches its next batch inside the compiled step, where no callback sees it. So the dataset is zipped
with a clock that is read just before each element is asked for, and a last map adds up what has passed since.
"""

from typing import TYPE_CHECKING, Any

from autopipe.telemetry._base import StallReading

if TYPE_CHECKING:
    import tensorflow as tf


class StallCounter:
    """Adds up the waiting of the `metered` datasets that were given it.

    One counter may serve several of them: the datasets that follow one another in a live iterator, say.

    >>> StallCounter().read()
    StallReading(waiting_seconds=0.0, batches=0)
    """

    def __init__(self) -> None:
        import tensorflow as tf

        # One tensor for both figures: a reading never sees the time of a batch without its count. Pipelines
        # run on the CPU; a variable elsewhere would cost a copy per batch.
        with tf.device("CPU:0"):
            self._sums = tf.Variable([0.0, 0.0], trainable=False, dtype=tf.float64, name="input_stall")

    def read(self) -> StallReading:
        """Return the sums since the counter was made; the difference of two readings is what lay between."""
        seconds, batches = self._sums.numpy()
        return StallReading(float(seconds), int(batches))

    def add(self, seconds: Any) -> None:
        """Count one batch more, with ``seconds`` (a float64 scalar tensor) of waiting; also in a graph."""
        self._sums.assign_add([seconds, 1.0])


def metered(dataset: "tf.data.Dataset", counter: StallCounter, *, inner_prefetch: bool) -> "tf.data.Dataset":
    """Return the same elements in the same order, and let ``counter`` know how long each was waited for.

    The structure of the elements, their specs and the cardinality stay the same. (One spec is written another
    way: ragged of rank 0, as slices of a ragged tensor are, becomes the plain tensor that it is.) The wait
    for the end of the sequence is not counted.

    Args:
        dataset: any dataset.
        counter: gets the seconds.
        inner_prefetch: whether TensorFlow would end ``dataset`` with a prefetch of its own. That must be
            off for the whole pipeline here (a prefetch behind the meter would hide the waiting), so where it
            would have stood, this puts one.

    >>> import tensorflow as tf
    >>> counter = StallCounter()
    >>> dataset = metered(tf.data.Dataset.range(3), counter, inner_prefetch=True)
    >>> [int(x) for x in dataset], counter.read().batches
    ([0, 1, 2], 3)
    """
    import tensorflow as tf

    def tick(_: Any) -> Any:
        return tf.timestamp()

    def count(asked: Any, element: Any) -> Any:
        counter.add(tf.timestamp() - asked)
        return element

    if inner_prefetch:
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
    plain = tf.autograph.experimental.do_not_convert  # nothing to convert, so nothing to spend on it
    ticks = tf.data.Dataset.counter().map(plain(tick), synchronous=True)
    # Zip asks its inputs in order: the clock first, then the dataset.
    timed = tf.data.Dataset.zip((ticks, dataset)).map(plain(count), synchronous=True)
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    return timed.with_options(options)
