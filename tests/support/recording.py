"""A model that writes down what it trains on, rows whose first number tells which one they are, and training of it."""

import keras
import numpy as np
import tensorflow as tf

ROWS = 48
WHOLE = list(range(ROWS))
# How long the noise of a busy machine can keep a search from its first trial, and more.
MOST_EPOCHS = 1000


def rows():
    x = np.arange(ROWS, dtype="float32")[:, None]
    return tf.data.Dataset.from_tensor_slices((x, x))


def identity(x, y):
    return x * 1, y


def fit_until_a_trial_ended(model, dataset, tuner, *callbacks):
    """Train until the search has told of a trial, and return after how many epochs that was."""
    return fit_until(lambda: tuner.search and tuner.search.trials, model, dataset, tuner, *callbacks)


def fit_until(enough, model, dataset, *callbacks):
    """Train until it is enough, and return after how many epochs that was."""

    class Enough(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = bool(enough())

    callbacks = [*callbacks, Enough()]
    return len(model.fit(dataset, epochs=MOST_EPOCHS, verbose=0, callbacks=callbacks).epoch)


class Recorder(keras.Model):
    """Writes down every element it trains on, and counts how often its step is traced."""

    def __init__(self, **arguments):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.seen = []
        self.weights_seen = set()
        self.traces = 0
        self.compile("sgd", "mse", **arguments)

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        self.traces += 1
        x, _, *weights = data
        tf.py_function(lambda batch: self.seen.extend(batch.numpy()[:, 0].astype(int).tolist()), [x], [])
        for each in filter(tf.is_tensor, weights):
            tf.py_function(lambda batch: self.weights_seen.update(batch.numpy().ravel().tolist()), [each], [])
        return super().train_step(data)

    @property
    def epochs(self):
        return [self.seen[start : start + ROWS] for start in range(0, len(self.seen), ROWS)]

    @property
    def sorted_epochs(self):
        return [sorted(epoch) for epoch in self.epochs]
