"""How many elements the consumer of an iterator asked for, and how many it got."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from autopipe.functions.autograph import without_autograph
from autopipe.pipeline.extract import element_shapes, element_types

__all__ = ["Requests"]


class Requests:
    """What a consumer asked for, counted by the pipeline, which sees a traced consumer as well as one in Python.

    An iterator that continues with another pipeline takes its counts along. They are for one iterator at a time.

    Args:
        given: how many elements were given before.
        in_vain: how many requests got no element.

    >>> requests = Requests()
    >>> options = tf.data.Options()
    >>> options.experimental_optimization.inject_prefetch = False
    >>> counted = requests.counted(tf.data.Dataset.range(3).map(lambda x: 6 // x))
    >>> iterator = iter(counted.with_options(options))
    >>> try:
    ...     next(iterator)
    ... except tf.errors.InvalidArgumentError:
    ...     requests.given, requests.in_vain
    (0, 1)
    >>> [int(x) for x in iterator], requests.given
    ([6, 3], 2)
    """

    def __init__(self, given: int = 0, in_vain: int = 0) -> None:
        with tf.device("CPU:0"):
            self._asked = tf.Variable(given + in_vain, trainable=False, dtype=tf.int64)
            self._given = tf.Variable(given, trainable=False, dtype=tf.int64)

    @property
    def given(self) -> int:
        """How many elements were given."""
        return int(self._given)

    @property
    def in_vain(self) -> int:
        """How many requests got no element: an element failed, or the end was reached."""
        return int(self._asked) - self.given

    def begin(self) -> None:
        """Start from zero, for another iterator."""
        self._asked.assign(0)
        self._given.assign(0)

    def counted(self, dataset: Any, then: Callable[[], None] = lambda: None) -> Any:
        """Return the same elements, counted while the consumer asks for them; nothing after it must read ahead.

        A zip takes from its first dataset, which counts the request, and then from its second, which may fail.

        Args:
            dataset: any dataset.
            then: is called, in a graph, when another element was given.
        """

        @without_autograph
        def note_given(_: Any, element: Any) -> Any:
            self._given.assign_add(1)
            then()
            return element

        types, shapes = element_types(dataset), element_shapes(dataset)
        # As plain tensors: a ragged one would be taken apart and put together again.
        flat = tuple(tf.TensorSpec(shape, kind) for kind, shape in zip(types, shapes, strict=True))
        tensors = tf.data.experimental.from_variant(tf.data.experimental.to_variant(dataset), flat)
        asked = tf.data.Dataset.counter().map(self._note_asked, synchronous=True)
        answered = tf.data.Dataset.zip((asked, tensors)).map(note_given, synchronous=True)
        counted = tf.data.experimental.from_variant(tf.data.experimental.to_variant(answered), dataset.element_spec)
        # TensorFlow frees the functions of a dataset that is not referenced.
        counted._autopipe_owner = (dataset, answered)
        return counted

    def only_the_end_was_in_vain(self) -> Any:
        """Return, in a graph that runs at the end, whether no element failed."""
        return tf.equal(self._asked - self._given, 1)

    def all_were_given(self, number: int) -> Any:
        """Return, in a graph, whether this many elements were given, and none failed."""
        return tf.logical_and(tf.equal(self._given, number), tf.equal(self._asked, number))

    @without_autograph
    def _note_asked(self, number: Any) -> Any:
        self._asked.assign_add(1)
        return number
