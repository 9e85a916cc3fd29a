import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _make() -> tf.data.Dataset:
    table = np.random.default_rng(0).uniform(0, 1, (12, 100_000)).astype(np.float32)
    columns = {f"column {number}": column for number, column in enumerate(table)}
    return tf.data.Dataset.from_tensor_slices(columns).shuffle(10_000).batch(256).prefetch(1)


CASE = RuleCase("gather_from_memory", "batches a table of twelve columns in memory", "epoch", _make)
