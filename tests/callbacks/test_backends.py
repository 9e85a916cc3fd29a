"""Keras trains with JAX or PyTorch on the same datasets: the callbacks follow them there too, and hold nothing up."""

import importlib.util
import json
import subprocess
import sys

import pytest
from hiding import showing
from needing import needs_keras

IMPORTS = """
import json
import threading
import warnings

import keras
import numpy as np
import tensorflow as tf

import autopipe
from autopipe.callbacks import PipelineMonitor, PipelineTuner

"""
TRAINING = """
ROWS = 48
x = np.arange(ROWS, dtype="float32")[:, None] / ROWS
seen, steps, threads = [], [], set()


class Recorder(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, rows, training=False):
        if training:
            seen.extend((keras.ops.convert_to_numpy(rows)[:, 0] * ROWS).round().astype(int).tolist())
        return self.dense(rows)


class Swapper(PipelineTuner):
    def on_train_batch_begin(self, batch, logs=None):
        super().on_train_batch_begin(batch, logs)
        if self._reading is not None:
            self._reading.dataset.retune({"prefetch.buffer_size": batch % 5 + 1, "thread_pool.size": batch % 3})

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        steps.append(self._taken().batches)


class MayRunBesideSteps(keras.callbacks.Callback):
    async_safe = True

    def on_train_batch_end(self, batch, logs=None):
        threads.add(threading.current_thread())


warnings.simplefilter("ignore")
written = tf.data.Dataset.from_tensor_slices((x, x)).shuffle(ROWS).batch(8).prefetch(1)
dataset = autopipe.optimize(written, rules=(), seconds=0)
model = Recorder()
model.build((None, 1))
model.compile("sgd", "mse", run_eagerly=True)
tuner = Swapper(trials=2, window_seconds=0.001, objective="rate", verbose=0, seed=1)
history = model.fit(dataset, epochs=3, verbose=0, callbacks=[tuner, PipelineMonitor(), MayRunBesideSteps()]).history
beside = bool(threads) and threading.main_thread() not in threads
print(json.dumps([sorted(seen), steps, sorted(history), beside]))
"""

MONITORING = """
x = np.ones((64, 1), "float32")
written = tf.data.Dataset.from_tensor_slices((x, x)).batch(8)
dataset = autopipe.optimize(written, seconds=0)


def train(data, *callbacks):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    history = model.fit(data, epochs=3, verbose=0, callbacks=list(callbacks)).history
    return history["loss"] + [float(model.predict(x[:1], verbose=0)[0, 0])], history


monitor = PipelineMonitor()
(plain, _), (monitored, figures) = train(written), train(dataset, monitor)
elements = monitor.profile.stretch.elements
print(json.dumps([plain, monitored, figures["steps_per_second"], elements]))
"""
BACKENDS = [pytest.param("jax", marks=needs_keras("3.6")), "torch"]


@pytest.fixture(scope="module", params=BACKENDS)
def printed(request, tmp_path_factory):
    """Return what each of the two prints; one process runs both, as importing takes seconds."""
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(f"pip install {request.param} to train with it")
    script = tmp_path_factory.mktemp(request.param) / "training.py"
    script.write_text(f"{IMPORTS}{MONITORING}{TRAINING}print(json.dumps(keras.backend.backend()))")
    ran = subprocess.run(
        [sys.executable, script],
        env={**showing(), "KERAS_BACKEND": request.param},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    *found, used = map(json.loads, ran.stdout.strip().splitlines()[-3:])
    assert used == request.param
    return found


def test_every_element_is_trained_on_once_per_epoch_when_every_step_swaps(printed):
    seen, steps, logged, others_ran_beside_steps = printed[1]
    assert seen == sorted([*range(48)] * 3)
    assert steps == [6, 12, 18]
    assert {"input_stall", "steps_per_second", "pipeline_trials"} <= set(logged)
    assert others_ran_beside_steps


def test_a_compiled_training_is_what_it_is_without_a_monitor(printed):
    """With JAX, the variables of a model are elsewhere within an epoch, and asking for the model would move them."""
    plain, monitored, speeds, elements = printed[0]
    assert monitored == pytest.approx(plain)
    assert len(speeds) == 3
    assert min(speeds) > 0
    assert elements == 3 * 8
