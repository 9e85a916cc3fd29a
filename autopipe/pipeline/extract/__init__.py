"""Dataset -> tree, by the private attributes of ``tf.data`` classes.

``tests/pipeline/test_tensorflow_contract.py`` states the attributes that are relied on, so that a test fails if a
TensorFlow release changes them. A class that is not known here, or that lost an attribute, becomes an opaque node.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autopipe.errors import DatasetError
from autopipe.pipeline import ir
from autopipe.pipeline.extract._files import FILES
from autopipe.pipeline.extract._reading import element_shapes, element_types, function_of, opaque, read_tree
from autopipe.pipeline.extract._stages import STAGES

__all__ = ["element_shapes", "element_types", "extract", "function_of", "op_determinism_enabled", "opaque"]

_READERS = STAGES | FILES


def extract(dataset: Any) -> ir.Node:
    """Read a dataset as a tree of nodes.

    Args:
        dataset: a ``tf.data.Dataset``.

    Returns:
        The node of its last transformation. What is not known becomes an :class:`~autopipe.pipeline.ir.Opaque`
        source; nothing upstream of it is read.

    Raises:
        DatasetError: if ``dataset`` is not a ``tf.data.Dataset``, or was not made eagerly.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.text import one_line
    >>> one_line(extract(tf.data.Dataset.range(9).shuffle(3).batch(2)))
    'range(0, 9) | shuffle(3) | batch(2)'
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise DatasetError(
            "autopipe reads a tf.data.Dataset, "
            f"but received {type(dataset).__name__}. "
            "Make one with tf.data.Dataset.from_tensor_slices, keras.utils.image_dataset_from_directory, "
            "or tf.data.Dataset.from_generator."
        )
    traced = tf.is_symbolic_tensor(dataset._variant_tensor)
    if traced or not tf.executing_eagerly():
        in_function = tf.compat.v1.executing_eagerly_outside_functions()
        where = "inside a tf.function" if in_function else "while eager execution was off"
        place = "where the training script calls fit()" if in_function else "in a program of TensorFlow 2"
        raise DatasetError(
            "autopipe reads a dataset that was made eagerly, and outside of a tf.function, "
            f"but {'received one made' if traced else 'was called'} {where}. Call autopipe.optimize() {place}."
        )
    return read_tree(dataset, _READERS)


def op_determinism_enabled() -> bool:
    """Return whether ``tf.config.experimental.enable_op_determinism()`` was called; it has no public reader."""
    from tensorflow.python.framework import config

    return bool(config.is_op_determinism_enabled())
