"""Functions of elements of any structure, for random pipelines."""

import numpy as np
import tensorflow as tf

VARIABLE = tf.Variable(2, dtype=tf.int64)
TABLE = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["1", "2"], [7, 8]), -1)
GENERATOR = tf.random.Generator.from_seed(3)


def on_leaves(element, change):
    """Apply a function to the values of every leaf, ragged and sparse ones too."""

    def leaf(part):
        if isinstance(part, tf.RaggedTensor):
            return part.with_flat_values(change(part.flat_values))
        if isinstance(part, tf.SparseTensor):
            return part.with_values(change(part.values))
        return change(part)

    return tf.nest.map_structure(leaf, element, expand_composites=False)


def key(element):
    """Return a whole number that depends on every value of an element."""
    total = tf.constant(0, tf.int64)
    for part in tf.nest.flatten(element, expand_composites=True):
        numbers = tf.strings.length(part) if part.dtype == tf.string else part
        total += tf.reduce_sum(tf.cast(numbers, tf.int64))
    return total


def packed(parts):
    """Return the element that ``map`` hands over as several arguments, or as one."""
    return parts if len(parts) > 1 else parts[0]


def plain(change):
    """Return a map function that changes every leaf."""

    def function(*parts):
        return on_leaves(packed(parts), change)

    return function


def bump(values):
    if values.dtype == tf.string:
        return tf.strings.join([values, "1"])
    return tf.logical_not(values) if values.dtype == tf.bool else values + tf.cast(1, values.dtype)


def scale(values):
    return values if values.dtype in (tf.string, tf.bool) else tf.cast(tf.cast(values, tf.float32) * 0.3, values.dtype)


def wave(values):
    return tf.sin(values) if values.dtype.is_floating else values


def contrast(values):
    if values.dtype in (tf.string, tf.bool):
        return values
    return tf.clip_by_value((tf.cast(values, tf.float32) - 3.0) * 0.7 + 0.1, -1.0, 100.0)


def jitter(values):
    if values.dtype in (tf.string, tf.bool):
        return values
    return tf.cast(values, tf.float32) * tf.random.uniform([], 0.5, 1.5) + tf.random.uniform([]) - 0.5


def noise(values):
    return values + tf.random.uniform(tf.shape(values), dtype=values.dtype) if values.dtype.is_floating else values


def seeded_noise(values):
    if not values.dtype.is_floating:
        return values
    return values + tf.random.uniform(tf.shape(values), dtype=values.dtype, seed=7)


def drawn(values):
    return values + GENERATOR.uniform(tf.shape(values), dtype=values.dtype) if values.dtype.is_floating else values


def of_unknown_shape(values):
    return tf.raw_ops.PlaceholderWithDefault(input=values, shape=tf.TensorShape(None)) if values.shape.rank else values


def turned(values):
    return values[..., ::-1] if values.shape.rank else values


def by_channels(values):
    if values.shape.rank is None or values.shape.rank < 3 or values.dtype == tf.string:
        return values
    return (tf.cast(values, tf.float32) - tf.range(1.0, values.shape[-1] + 1.0)) / [[[0.7]]]


def chosen(values):
    return tf.where(tf.size(values) % 3 == 0, bump(values), values)


def by_variable(values):
    return values * VARIABLE if values.dtype == tf.int64 else values


def by_table(values):
    return tf.strings.as_string(TABLE.lookup(values)) if values.dtype == tf.string else values


def by_python(values):
    return tf.ensure_shape(tf.numpy_function(np.array, [values], values.dtype), values.shape)


def by_declared_python(values):
    return tf.ensure_shape(tf.numpy_function(np.array, [values], values.dtype, stateful=False), values.shape)


def twice(*parts):
    return {"first": packed(parts), "again": packed(parts)}


def first_leaf(*parts):
    return tf.nest.flatten(packed(parts))[0]


def with_text(*parts):
    element = packed(parts)
    return element, tf.nest.map_structure(lambda leaf: tf.strings.as_string(key(leaf)), element)


def branching(*parts):
    element = packed(parts)
    return tf.cond(key(element) % 2 == 0, lambda: on_leaves(element, bump), lambda: on_leaves(element, scale))


def checked(*parts):
    element = packed(parts)
    tf.debugging.assert_none_equal(key(element) % 7, tf.constant(3, tf.int64))
    return element


def some(*parts):
    return key(packed(parts)) % 3 > 0


def by_first(*parts):
    return key(tf.nest.flatten(packed(parts))[0]) % 2 == 0


def none(*parts):
    return tf.constant(False)


def called(function):
    """Return a map function that calls one decorated with ``tf.function``."""
    decorated = tf.function(function, autograph=False)
    return lambda *parts: decorated(*parts)


FUNCTIONS = {
    each.__name__: plain(each)
    for each in (
        *(bump, scale, wave, contrast, jitter, noise, seeded_noise, drawn, turned, by_channels, chosen),
        *(of_unknown_shape, by_variable, by_table, by_python, by_declared_python),
    )
} | {each.__name__: each for each in (twice, first_leaf, with_text, branching, checked)}
FUNCTIONS |= {f"{name} in a call": called(function) for name, function in FUNCTIONS.items()}
PREDICATES = {each.__name__: each for each in (some, by_first, none)}
