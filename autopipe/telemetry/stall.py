"""How long the consumer of a pipeline waits for it, measured inside the pipeline.

Keras fetches its next batch inside the compiled step, where no callback sees it. So the dataset is zipped
with a clock that is read just before each element is asked for, and a last map adds up what has passed since.
"""

from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from autopipe.pipeline.extract import element_shapes, element_types
from autopipe.telemetry._base import StallReading

if TYPE_CHECKING:
    import tensorflow as tf


# TensorFlow optimizes and places the functions of a pipeline anew for each iterator, 4 ms for each of them; not those
# that are all for one device.
_ON_ONE_DEVICE = {"experimental_ints_on_device": True}


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
        self._before = (0.0, 0.0)
        self._last: StallReading | None = None

    def read(self) -> StallReading:
        """Return the sums since the counter was made; the difference of two readings is what lay between."""
        return self._last or self._since_before(self._sums.numpy())

    def hand_on(self) -> "StallCounter":
        """Return one that counts from now on what is metered by this one, which stays as it is.

        >>> counter = StallCounter()
        >>> counter.add(0.5)
        >>> other = counter.hand_on()
        >>> other.add(0.25)
        >>> counter.read().waiting_seconds, other.read().waiting_seconds
        (0.5, 0.25)
        """
        made = copy(self)
        made._before = self._sums.numpy()
        self._last = self._since_before(made._before)
        return made

    def add(self, seconds: Any) -> None:
        """Count one batch more, with ``seconds`` (a float64 scalar tensor) of waiting; also in a graph."""
        self._sums.assign_add([seconds, 1.0])

    @property
    def handle(self) -> Any:
        """What a traced function refers to this counter by."""
        return self._sums.handle

    def _since_before(self, sums: Any) -> StallReading:
        seconds, batches = sums - self._before
        return StallReading(float(seconds), round(batches))


def metered(dataset: "tf.data.Dataset", counter: StallCounter, *, inner_prefetch: bool) -> "tf.data.Dataset":
    """Return the same elements in the same order, and let ``counter`` know how long each was waited for.

    The structure of the elements, their specs and the cardinality stay the same. The wait for the end of the
    sequence is not counted. Nothing is traced but for the first dataset of its types.

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

    if inner_prefetch:
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
    types, shapes = element_types(dataset), element_shapes(dataset)
    ticks, now = _ticks()
    # Zip asks its inputs in order: the clock first, then the dataset.
    timed = tf.raw_ops.ZipDataset(
        input_datasets=[ticks, tf.data.experimental.to_variant(dataset)],
        output_types=[tf.float64, *types],
        output_shapes=[[], *shapes],
    )
    count = _count(tuple(types), tuple(map(_dimensions, shapes)))
    # The function was traced with another counter, the only thing it captures.
    counted = _mapped(timed, count, [counter.handle], types, shapes)
    made = tf.data.experimental.from_variant(counted, dataset.element_spec)
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    made = made.with_options(options)
    # TensorFlow frees the functions of a dataset, and the counter, that nobody holds.
    made._autopipe_meter = (dataset, now, count, counter)
    return made


def _mapped(variant: Any, function: Any, captured: list[Any], types: Any, shapes: Any) -> Any:
    """Return a dataset mapped by a function of a few small operations, as a variant.

    It runs on the thread that asks for the element: handing the operations to a pool takes ten times as long.
    """
    import tensorflow as tf

    return tf.raw_ops.MapDataset(
        input_dataset=variant,
        other_arguments=captured,
        f=function,
        output_types=types,
        output_shapes=shapes,
        use_inter_op_parallelism=False,
        force_synchronous=True,
        preserve_cardinality=True,
    )


@lru_cache(maxsize=1)
def _ticks() -> tuple[Any, Any]:
    """Return a dataset of the times at which its elements are asked for, as a variant, and what to hold for it."""
    import tensorflow as tf

    numbers = tf.data.experimental.to_variant(tf.data.Dataset.range(tf.int64.max))
    now = _traced(lambda number: tf.timestamp(), [tf.TensorSpec([], tf.int64)])
    return _mapped(numbers, now, [], [tf.float64], [[]]), now


@lru_cache(maxsize=256)
def _count(types: tuple[Any, ...], shapes: tuple[tuple[int | None, ...] | None, ...]) -> Any:
    """Return a function that adds up the waiting for elements of these flat types, and hands them on."""
    import tensorflow as tf

    template = StallCounter()
    parts = [tf.TensorSpec(shape, kind) for kind, shape in zip(types, shapes, strict=True)]

    def count(asked: Any, *element: Any) -> Any:
        template.add(tf.timestamp() - asked)
        return element

    concrete = _traced(count, [tf.TensorSpec([], tf.float64), *parts])
    assert len(concrete.captured_inputs) == 1
    # TensorFlow frees the graph of a function whose variables nobody holds.
    concrete._autopipe_template = template
    return concrete


def _traced(function: Any, signature: list[Any]) -> Any:
    import tensorflow as tf

    traced = tf.function(function, input_signature=signature, autograph=False, experimental_attributes=_ON_ONE_DEVICE)
    return traced.get_concrete_function()


def _dimensions(shape: Any) -> tuple[int | None, ...] | None:
    return tuple(shape.as_list()) if shape.rank is not None else None
