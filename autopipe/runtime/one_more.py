"""A further element of an iterator whose consumer is gone: only that shows whether the iterator was at its end.

Private modules of TensorFlow are used here, ``cancellation``, ``context`` and ``execute``, to give up waiting for an
element where a filter might search all that is left.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import tensorflow as tf

from autopipe.pipeline.extract import element_shapes, element_types

__all__ = ["ask_for_one_more"]

# The element is mostly ready. Otherwise it may take this share of the time for which the iterator was read.
_PATIENCE_SECONDS = 2.0
_PATIENCE = 0.2


def ask_for_one_more(resource: Any, like: Any, *, began: float) -> Any | None:
    """Take one more element than the consumer did, which is gone and cannot notice.

    Args:
        resource: the handle of what the iterator runs.
        like: a dataset of the same types.
        began: when the iterator was made, by the monotonic clock.

    Returns:
        ``None`` if there is one; else TensorFlow's error: the end, an element that failed, or a timeout.

    >>> import tensorflow as tf
    >>> dataset = tf.data.Dataset.range(1)
    >>> iterator = iter(dataset)
    >>> asked = [ask_for_one_more(iterator._iterator_resource, dataset, began=time.monotonic()) for _ in range(2)]
    >>> [type(each).__name__ for each in asked]
    ['NoneType', 'OutOfRangeError']
    """
    from tensorflow.python.eager import cancellation, context, execute

    patience = max(_PATIENCE_SECONDS, _PATIENCE * (time.monotonic() - began))
    manager = cancellation.CancellationManager()
    given_up = threading.Timer(patience, manager.start_cancel)
    given_up.daemon = True
    given_up.start()
    types = [execute.make_type(each, "output_types") for each in element_types(like)]
    shapes = [execute.make_shape(each, "output_shapes") for each in element_shapes(like)]
    attributes = ("output_types", types, "output_shapes", shapes)
    try:
        # This must not cancel anything else that runs meanwhile, as cancelling a function would.
        execute.execute_with_cancellation(
            "IteratorGetNext", len(types), [resource], attributes, context.context(), manager
        )
    except tf.errors.OpError as error:
        return error
    finally:
        given_up.cancel()
    return None
