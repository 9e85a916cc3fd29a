"""Whether the consumer of a dataset took all its elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from autopipe.functions.autograph import without_autograph
from autopipe.pipeline.extract import element_shapes, element_types
from autopipe.runtime.requests import Requests

__all__ = ["telling_its_end"]


def telling_its_end(
    dataset: Any,
    tell: Callable[[], None],
    requests: Requests,
    *,
    number: int,
    inner_prefetch: bool,
    stateless: bool = False,
    chosen: bool = False,
) -> Any:
    """Return the same elements; once the consumer has all of them, ``tell`` is called.

    If ``number`` is known, that is as soon as it has taken that many, since Keras asks for no more. Otherwise it is
    when the consumer asks for another. It is never called if the consumer ever got an error: after an element that
    failed, a batch or a take may have given another in its place.

    Args:
        dataset: any dataset.
        tell: is called, in a graph.
        requests: counts what is asked for; an iterator that goes on over another pipeline keeps its own.
        number: how many elements there are; below 1 if that is not known, or if some may be left out, so that an error
            among these would not reach the consumer.
        inner_prefetch: whether TensorFlow would end ``dataset`` with a prefetch of its own. Put after the result, that
            prefetch would ask for elements in place of the consumer; so it is put before.
        stateless: whether TensorFlow can save an iterator over ``dataset``. Then it can save one over the result too,
            though whether ``tell`` was called is not saved.
        chosen: whether elements are chosen from several datasets. TensorFlow then forgets their shapes, and treats what
            it concatenates as scalars.

    >>> ended = tf.Variable(False)
    >>> def tell():
    ...     ended.assign(True)
    >>> told = telling_its_end(tf.data.Dataset.range(3), tell, Requests(), number=3, inner_prefetch=True)
    >>> [int(x) for x in told], bool(ended.numpy())
    ([0, 1, 2], True)
    """
    if chosen and number <= 0:
        dataset = _with_shapes(dataset)
    if inner_prefetch:
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
    told = _at_the_last(dataset, number, tell, requests) if number > 0 else _after_the_last(dataset, tell, requests)
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    if stateless:
        options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    return told.with_options(options)


def _with_shapes(dataset: Any) -> Any:
    """Return the same elements after a map that states their shapes; a map that does nothing would be left out."""

    def shaped(part: Any, spec: Any) -> Any:
        return tf.ensure_shape(part, spec.shape) if isinstance(spec, tf.TensorSpec) else part

    def pass_on(*element: Any) -> Any:
        whole = element if type(dataset.element_spec) is tuple else element[0]
        return tf.nest.map_structure(shaped, whole, dataset.element_spec)

    return dataset.map(without_autograph(pass_on), synchronous=True)


def _at_the_last(dataset: Any, number: int, tell: Callable[[], None], requests: Requests) -> Any:
    def note() -> None:
        tf.cond(requests.all_were_given(number), lambda: _true_after(tell), lambda: tf.constant(False))

    return requests.counted(dataset, note)


def _after_the_last(dataset: Any, tell: Callable[[], None], requests: Requests) -> Any:
    counted = requests.counted(dataset)
    types, shapes = element_types(dataset), element_shapes(dataset)

    @without_autograph
    def end(_: Any) -> Any:
        whole = requests.only_the_end_was_in_vain()
        told = tf.cond(whole, lambda: _true_after(tell), lambda: tf.constant(True))
        return tf.logical_not(told)

    @without_autograph
    def never(_: Any) -> Any:
        return tuple(tf.raw_ops.Placeholder(dtype=kind, shape=shape) for kind, shape in zip(types, shapes, strict=True))

    nothing = tf.data.Dataset.range(1).filter(end).map(never, synchronous=True)
    variant = tf.raw_ops.ConcatenateDataset(
        input_dataset=tf.data.experimental.to_variant(counted),
        another_dataset=tf.data.experimental.to_variant(nothing),
        output_types=list(types),
        output_shapes=list(shapes),
    )
    told = tf.data.experimental.from_variant(variant, dataset.element_spec)
    # TensorFlow frees the functions of a dataset that is not referenced.
    told._autopipe_owner = (counted, nothing)
    return told


def _true_after(tell: Callable[[], None]) -> Any:
    tell()
    return tf.constant(True)
