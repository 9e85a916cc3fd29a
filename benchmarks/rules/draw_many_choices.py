import numpy as np
import tensorflow as tf

from benchmarks.rules._base import RuleCase


def _rows(count: int, label: int) -> tf.data.Dataset:
    features = np.random.default_rng(label).random((count, 29), dtype="float32")
    return tf.data.Dataset.from_tensor_slices((features, np.full(count, label))).shuffle(count).repeat()


def _make() -> tf.data.Dataset:
    return tf.data.Dataset.sample_from_datasets([_rows(20_000, 0), _rows(400, 1)], [0.5, 0.5]).batch(256)


CASE = RuleCase("draw_many_choices", "rows of a rare and a common class, as often as each other", "epoch", _make, 100)
