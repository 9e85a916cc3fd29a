"""The monitor measures and changes nothing."""

import time

import keras
import pytest
import tensorflow as tf

import autopipe
from autopipe.callbacks import PipelineMonitor

pytestmark = [
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning"),
    pytest.mark.filterwarnings("ignore:GPU utilization:autopipe.telemetry.TelemetryWarning"),
]


def model():
    made = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made


def fit(dataset, callbacks=()):
    return model().fit(dataset, epochs=3, verbose=0, callbacks=[PipelineMonitor(), *callbacks]).history["input_stall"]


def slow(x):
    def wait(value):
        time.sleep(0.02)
        return value

    return tf.ensure_shape(tf.numpy_function(wait, [x], tf.float32), [4, 1])


def test_a_slow_pipeline_stalls_the_epoch_and_a_slow_model_does_not():
    class SlowModel(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            time.sleep(0.02)

    batches = tf.data.Dataset.from_tensors(tf.ones([4, 1])).repeat(20)
    starved = fit(autopipe.optimize(batches.map(slow).map(lambda x: (x, x)), rules=()))
    fed = fit(autopipe.optimize(batches.map(lambda x: (x, x)), rules=()), [SlowModel()])
    assert min(starved[1:]) > 0.5
    assert max(fed[1:]) < 0.2


def test_without_rules_the_pipeline_runs_as_it_was_written():
    written = tf.data.Dataset.range(6).map(lambda x: x * 2).batch(2)
    dataset = autopipe.optimize(written, rules=())
    assert not dataset.explain().rewriting.steps
    assert [batch.tolist() for batch in dataset.as_numpy_iterator()] == [[0, 2], [4, 6], [8, 10]]
