import keras
import tensorflow as tf

from benchmarks.rules._base import RuleCase

_COUNT = 4000


def _make() -> tf.data.Dataset:
    texts = [f"Review {number}: " + "good or bad, " * (number % 150) for number in range(_COUNT)]
    vectorize = keras.layers.TextVectorization(vocabulary=["good", "bad", "or"], output_sequence_length=300)
    labelled = tf.data.Dataset.from_tensor_slices((texts, [number % 2 for number in range(_COUNT)]))
    batches = labelled.shuffle(1000).batch(32)
    return batches.map(lambda text, label: (vectorize(tf.expand_dims(text, -1)), label), num_parallel_calls=-1)


CASE = RuleCase("cache_rows", "vectorizes texts by shuffled batches, as the guides of Keras do", "epoch", _make)
