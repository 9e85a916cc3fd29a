"""Destroying iterators on a separate thread, so that training does not wait for it.

TensorFlow's AUTOTUNE thread sleeps between two optimizations, twice as long each time, up to a minute. Destroying the
iterator wakes it before it has been told to stop, so that it may sleep on (``Model::OptimizeLoop`` of ``model.cc``).
The thread that destroys the iterator waits for it: in training, that happens at the end of an epoch, holding the GIL,
and when a running iterator gets another pipeline. So another thread does it here.

Private attributes of TensorFlow are read here, ``OwnedIterator._iterator_resource``, and ``_dataset``.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import lru_cache
from typing import Any

import tensorflow as tf

from autopipe.pipeline.extract import element_shapes, element_types
from autopipe.pipeline.tensorflow_rewrites import as_built

__all__ = ["call_aside", "dispose_aside", "is_fresh", "number_given", "put_in_place", "resource_of"]

_LOOK_SECONDS = 0.001
# Making a pipeline usually takes this long if its predecessor is not waited for.
_MAKING_SECONDS = 0.005
# The last references to an object that is being freed go within microseconds.
_PATIENCE_SECONDS = 0.1
# The list that holds the handle, and the argument of the function that counts references. Releases of Python count
# local names differently.
_OWN_REFERENCES = 2


def resource_of(iterator: Any) -> Any:
    """Return the handle of the pipeline that an iterator runs."""
    return iterator._iterator_resource


def dispose_aside(iterator: Any, before: Callable[[Any], None] = lambda _: None) -> Future[None]:
    """Let another thread destroy the pipeline of an iterator once the iterator is garbage-collected.

    Args:
        iterator: the iterator.
        before: what that thread does first with its handle; with ``None`` if the handle has another owner.

    Returns:
        A future that is done once it is destroyed; never if the handle has another owner.

    >>> import tensorflow as tf
    >>> iterator = iter(tf.data.Dataset.range(3))
    >>> destroyed = dispose_aside(iterator)
    >>> [int(x) for x in iterator], destroyed.done()
    ([0, 1, 2], False)
    """
    destroyed: Future[None] = Future()
    held = [resource_of(iterator)]
    weakref.finalize(iterator, _dispose, held, iterator._dataset, before, destroyed).atexit = False
    return destroyed


def call_aside(iterator: Any, then: Callable[[], None]) -> None:
    """Let another thread do something once an iterator is garbage-collected.

    >>> import tensorflow as tf
    >>> gone = threading.Event()
    >>> call_aside(iter(tf.data.Dataset.range(3)), gone.set)
    >>> gone.wait(10)
    True
    """
    weakref.finalize(iterator, _begin_aside, then).atexit = False


def put_in_place(resource: Any, dataset: Any, *, aside: bool, restored: bool = False) -> Future[None]:
    """Make an iterator run another pipeline, from its beginning.

    Args:
        resource: its handle.
        dataset: the pipeline, with the options of the one before.
        aside: whether the one before may still be ending when this returns.
        restored: whether a state was restored into the one before. TensorFlow does not show the model of such an
            iterator, and logs a warning when asked for it.

    Returns:
        A future that is done once the one before has ended.

    Raises:
        tensorflow.errors.OpError: if TensorFlow cannot make the pipeline; the iterator runs the one before then.
    """

    def make() -> None:
        tf.raw_ops.MakeIterator(dataset=tf.data.experimental.to_variant(dataset), iterator=resource)

    autotuned = dataset.options().autotune.enabled is not False
    if not (aside and autotuned) or (not restored and is_fresh(resource)):
        make()
        return _done()
    made, seconds = _on_another_thread(make), _MAKING_SECONDS
    while not wait([made], timeout=seconds).done and not is_fresh(resource):
        seconds *= 2
    if made.done():
        made.result()
    return made


def _dispose(held: list[Any], dataset: Any, before: Callable[[Any], None], destroyed: Future[None]) -> None:
    """Begin to destroy what a handle leads to, which is in a list of one; there must be no other reference to it."""
    _begin_aside(lambda: _empty(held, dataset, before, destroyed))


def _begin_aside(work: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):
        # No thread can be started while the interpreter shuts down.
        _on_another_thread(work)


def _empty(held: list[Any], dataset: Any, before: Callable[[Any], None], destroyed: Future[None]) -> None:
    """Make the handle run an empty pipeline, which destroys the one before with the GIL released."""
    given_up = time.monotonic() + _PATIENCE_SECONDS
    while sys.getrefcount(held[0]) > _OWN_REFERENCES:
        if time.monotonic() > given_up:
            # There is another reference, such as a traced function that reads on from it.
            before(None)
            return
        time.sleep(_LOOK_SECONDS)
    before(held[0])
    put_in_place(held.pop(), _nothing_like(dataset), aside=False)
    destroyed.set_result(None)


def _nothing_like(dataset: Any) -> Any:
    """Return a dataset of the same types without elements."""
    return _nothing(tuple(element_types(dataset)), tuple(map(_sides, element_shapes(dataset))))


@lru_cache(maxsize=256)
def _nothing(types: tuple[Any, ...], shapes: tuple[tuple[int, ...], ...]) -> Any:
    """Return a dataset of these flat types; making it keeps Python from reading batches for a millisecond."""
    with tf.device("CPU:0"):
        # An empty tensor of variants can be had only as a slice of another.
        variants = tf.data.experimental.to_variant(tf.data.Dataset.range(0))[tf.newaxis][:0]
        parts = [
            tf.reshape(variants, [0, *sides]) if kind == tf.variant else tf.zeros([0, *sides], kind)
            for kind, sides in zip(types, shapes, strict=True)
        ]
    return as_built(tf.data.Dataset.from_tensor_slices(tuple(parts)))


def _sides(shape: Any) -> tuple[int, ...]:
    """Return the sides of a tensor of this shape; 0 for those that are not known."""
    return tuple(side or 0 for side in shape.as_list()) if shape.rank is not None else ()


def is_fresh(resource: Any) -> bool:
    """Return whether an autotuned iterator is new: it has given no element, and no state was restored into it."""
    return number_given(resource) == 0


def number_given(resource: Any) -> int | None:
    """Return how many elements an autotuned iterator has given; ``None`` if a state was restored into it."""
    from tensorflow.core.framework import model_pb2

    try:
        serialized = tf.raw_ops.IteratorGetModelProto(iterator=resource).numpy()
    except tf.errors.OpError:
        # TensorFlow does not show the model of an iterator into which a state was restored.
        return None
    model = model_pb2.ModelProto.FromString(serialized)
    return int(model.nodes[model.output].num_elements)


def _on_another_thread(work: Callable[[], None]) -> Future[None]:
    done: Future[None] = Future()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name="autopipe-disposal").start()
    return done


def _done() -> Future[None]:
    done: Future[None] = Future()
    done.set_result(None)
    return done
