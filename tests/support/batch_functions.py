"""Functions of a batch of rows of four numbers: some treat rows apart, the others mix them."""

import numpy as np
import tensorflow as tf

NUMBERS = np.random.default_rng(0).normal(size=(24, 4)).astype("float32")
WEIGHTS = tf.constant(np.arange(12.0, dtype="float32").reshape(4, 3))


def images(x):
    return tf.reshape(tf.tile(x, [1, 12]), [-1, 4, 4, 3])


APART = {
    "by value": lambda x: tf.maximum(tf.exp(x) / 2 - x, 0.1),
    "a constant for each column": lambda x: x * tf.constant([1.0, 2.0, 3.0, 4.0]),
    "a constant for one row": lambda x: x * tf.constant([[1.0, 2.0, 3.0, 4.0]]),
    "along the row": lambda x: x / tf.reduce_max(x, axis=-1, keepdims=True),
    "sum of the row": lambda x: tf.reduce_sum(x, 1),
    "columns": lambda x: x[:, 1:3],
    "columns with an ellipsis": lambda x: x[..., ::-1][:, :2, tf.newaxis],
    "joined columns": lambda x: tf.concat([x, -x], axis=-1),
    "stacked columns": lambda x: tf.stack(tf.unstack(x, axis=1)[:3], axis=1),
    "blue first": lambda x: images(x)[..., ::-1],
    "split columns": lambda x: tf.split(x, [1, 3], axis=1),
    "reshaped": lambda x: tf.reshape(tf.reshape(x, [-1, 2, 2]), [tf.shape(x)[0], 4]),
    "matrix product": lambda x: x @ WEIGHTS,
    "padded": lambda x: tf.pad(x, [[0, 0], [1, 2]]),
    "transposed inside": lambda x: tf.transpose(images(x), [0, 3, 1, 2]),
    "one hot": lambda x: tf.one_hot(tf.cast(tf.argmax(x, -1), tf.int32), 4),
    "rows of a table": lambda x: tf.gather(WEIGHTS, tf.argmin(x, axis=1)),
    "some columns": lambda x: tf.gather(x, [2, 0], axis=1),
    "two of each": lambda x: tf.tile(x, [1, 2]),
    "chosen by value": lambda x: tf.where(x > 0, x, 0.0),
    "weights of one": lambda x: (tf.ones(tf.shape(x)), tf.fill([tf.shape(x)[0], 2], 3.0)),
    "softmax": tf.nn.softmax,
    "the largest": lambda x: tf.math.top_k(x, 2),
    "resized images": lambda x: tf.image.resize(images(x), (2, 3)),
    "contrast": lambda x: tf.image.adjust_contrast(images(x), 0.5),
    "a function that calls another": tf.function(lambda x: (tf.function(lambda y: tf.abs(y))(x), x + 1)),
    "bucketized": lambda x: tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 1.0]),
}
MIXED = {
    "Max": lambda x: x / tf.reduce_max(x),
    "Mean": lambda x: x - tf.reduce_mean(x, axis=0),
    "StridedSlice": lambda x: x[::-1],
    "StridedSlice ": lambda x: x[..., 0, :],
    "ReverseV2": lambda x: tf.reverse(x, [0]),
    "Cumsum": tf.cumsum,
    "Roll": lambda x: tf.roll(x, 1, 0),
    "ConcatV2": lambda x: tf.concat([x, x], 0),
    "Reshape": lambda x: tf.reshape(x, [-1, 2]),
    "Transpose": tf.transpose,
    "Tile": lambda x: tf.tile(x, [2, 1]),
    "Pad": lambda x: tf.pad(x, [[1, 0], [0, 0]]),
    "MatMul": lambda x: tf.matmul(x, x, transpose_b=True),
    "Sub": lambda x: x - x[:, 0],
    "Mul": lambda x: x * tf.cast(tf.shape(x)[0], tf.float32),
    "GatherV2": lambda x: tf.gather(x, [0, 0, 1]),
    "ExpandDims": lambda x: tf.expand_dims(x, 0),
    "Where": lambda x: tf.boolean_mask(x, x[:, 0] > 0),
    "AddV2": lambda x: x + tf.ones([24, 4]),
    "Select": lambda x: tf.raw_ops.Select(condition=[True] * 12 + [False] * 12, x=x, y=-x),
    "a result that has no rows": lambda x: tf.shape(x),
    "a result that has no rows ": lambda x: tf.fill([tf.shape(x)[0] + 1, 2], 3.0),
    "a result that has no rows  ": lambda x: tf.fill([tf.shape(x)[1], tf.shape(x)[0]], 3.0),
    "a result that is not a plain tensor": lambda x: tf.RaggedTensor.from_tensor(x),
}
