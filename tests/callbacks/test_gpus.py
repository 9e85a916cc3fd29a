"""Both callbacks in a real ``fit`` on a machine with a GPU, whose driver alone is stood in for."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nvidia_driver import environment_with

PERIOD = 0.1
SETTINGS = {"FAKE_MINE": "1,0", "FAKE_PERIOD": str(round(PERIOD * 1e6))}
TRAINING = """
import json
import os
import warnings
import keras
import numpy as np
import tensorflow as tf
import autopipe
from autopipe.callbacks import PipelineMonitor, PipelineTuner

warned = []
warnings.simplefilter("always")
warnings.showwarning = lambda said, kind, *_: warned.append(f"{kind.__name__}: {said}")

class Until(keras.callbacks.Callback):
    def __init__(self, done):
        super().__init__()
        self.done = done
    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = bool(self.done())

model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensor_slices((np.zeros((400, 1)), np.zeros((400, 1))))
dataset = autopipe.optimize(data.map(lambda x, y: (x + 1, y)).batch(4), rules=(), seconds=0)

def fit(done, *callbacks):
    return model.fit(dataset, epochs=10_000, verbose=0, callbacks=[*callbacks, Until(done)]).history
"""
# Runs scripts, one a line, each as if it were the first.
RUNNER = """
import contextlib, io, json, os, sys, traceback
from autopipe.callbacks import _watching
from autopipe.telemetry import gpu

for line in sys.stdin:
    script, settings = json.loads(line)
    os.environ.update(settings)
    gpu._warned.clear()
    _watching.computes_on_gpu = lambda: True
    said, failed = io.StringIO(), None
    with contextlib.redirect_stdout(said):
        try:
            exec(script, {})
        except BaseException:
            failed = traceback.format_exc()
    for name in settings:
        del os.environ[name]
    print(json.dumps([said.getvalue().splitlines(), failed]), flush=True)
"""
Run = Callable[..., list[str]]


@pytest.fixture(scope="module")
def run(fake_driver: Path) -> Iterator[Run]:
    """Run a script with the driver; return the lines it prints. One process runs all: importing takes seconds."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", RUNNER], env=environment_with(fake_driver), **pipes) as process:

        def run(script: str, **settings: str) -> list[str]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps([script, settings]) + "\n")
            process.stdin.flush()
            said, failed = json.loads(process.stdout.readline())
            assert failed is None, failed
            return said

        yield run


def test_the_monitor_logs_the_mean_of_the_samples_of_the_gpu(run: Run) -> None:
    script = """
logged = []
class Log(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        logged.append(logs.get("gpu_utilization"))
fit(lambda: any(logged), PipelineMonitor(), Log())
print(json.dumps(logged[-1]))
"""
    said = run(TRAINING + script, FAKE_UTILIZATION="37,99", **SETTINGS)
    assert round(json.loads(said[-1]), 6) == 0.37


def test_the_windows_of_a_tuner_hold_several_samples_of_the_gpu(run: Run) -> None:
    script = """
def first_window(**choices):
    tuner = PipelineTuner(window_seconds=0.01, verbose=0, **choices)
    fit(lambda: tuner.search and tuner.search.first, tuner)
    first = tuner.search.first
    return [tuner.search.objective, first.gpu, first.seconds]
print(json.dumps([first_window(), first_window(objective="busy")]))
"""
    said = run(TRAINING + script, FAKE_UTILIZATION="37,99", **SETTINGS)
    (objective, gpu, seconds), (other, _, fewer_seconds) = json.loads(said[-1])
    assert objective == "gpu"
    assert round(gpu, 6) == 0.37
    assert seconds >= 5 * PERIOD
    assert other == "busy"
    assert fewer_seconds < 5 * PERIOD


@pytest.mark.parametrize(
    "fault",
    [
        {"FAKE_INIT": "9"},  # not loaded
        {"FAKE_HANDLE": "4,4"},  # no permission
        {"FAKE_UTILIZATION": "-3,-3"},  # no utilization, as of a GPU divided by MIG
    ],
)
def test_without_figures_the_waiting_counts_and_that_is_told_once(run: Run, fault: dict[str, str]) -> None:
    script = """
tuner = PipelineTuner(window_seconds=0.01, verbose=0)
history = fit(lambda: tuner.search and tuner.search.first, tuner, PipelineMonitor())
said = [each for each in warned if "TelemetryWarning" in each]
print(json.dumps([len(said), tuner.search.objective, "gpu_utilization" in history]))
"""
    assert json.loads(run(TRAINING + script, **fault)[-1]) == [1, "busy", False]


def test_a_gpu_that_the_backend_cannot_use_tells_nothing_of_the_training(run: Run) -> None:
    script = """
from autopipe.callbacks import _watching
from autopipe.telemetry.backend import computes_on_gpu
_watching.computes_on_gpu = computes_on_gpu
tuner = PipelineTuner(window_seconds=0.01, verbose=0)
history = fit(lambda: tuner.search and tuner.search.first, tuner, PipelineMonitor())
print(json.dumps([tuner.search.objective, "gpu_utilization" in history]))
"""
    assert json.loads(run(TRAINING + script, FAKE_UTILIZATION="37,99", **SETTINGS)[-1]) == ["busy", False]


def test_of_an_interrupted_training_nobody_samples_the_gpu_once_its_callback_is_gone(run: Run) -> None:
    script = """
import gc, threading
class Interrupts(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        raise KeyboardInterrupt
def sampling():
    return sum(thread.name == "autopipe-sampler" for thread in threading.enumerate())
def train():
    try:
        fit(lambda: False, PipelineMonitor(), Interrupts())
    except KeyboardInterrupt:
        return sampling()
while_training = train()
gc.collect()
print(json.dumps([while_training, sampling()]))
"""
    assert json.loads(run(TRAINING + script, FAKE_UTILIZATION="37,99", **SETTINGS)[-1]) == [1, 0]


def test_of_two_gpus_the_one_that_is_used_counts(run: Run) -> None:
    script = """
tuner = PipelineTuner(window_seconds=0.01, verbose=0)
fit(lambda: tuner.search and tuner.search.first, tuner)
print(tuner.search.objective, round(tuner.search.first.gpu, 6))
"""
    settings = SETTINGS | {"FAKE_MINE": "0,1"}
    assert run(TRAINING + script, FAKE_UTILIZATION="99,37", **settings)[-1] == "gpu 0.37"


def test_a_driver_lost_in_mid_run_is_told_once_and_tuning_goes_on_by_the_waiting(run: Run) -> None:
    script = """
import math
import time
tuner = PipelineTuner(trials=1, window_seconds=0.01, most_loss=math.inf, verbose=0, seed=0)
def lost():
    return [each for each in warned if "GpuIsLost" in each]
class Losing(keras.callbacks.Callback):
    went_on = False
    def on_epoch_begin(self, epoch, logs=None):
        self.went_on = bool(lost())
    def on_train_batch_end(self, batch, logs=None):
        # At once: at the end of a long epoch the trial may be over.
        if tuner.search and tuner.search.first and not lost():
            os.environ["FAKE_UTILIZATION"] = "-15"
            while not lost():
                time.sleep(0.01)
            # So long, and no longer, the latest that the driver told is taken for what is now.
            time.sleep(2 * 0.1)
losing = Losing()
history = fit(lambda: losing.went_on and tuner.search.finished, tuner, losing)
print(json.dumps([len(lost()), len(tuner.search.trials), tuner.search.last.gpu, len(history["input_stall"])]))
"""
    said = run(TRAINING + script, FAKE_UTILIZATION="37,99", **SETTINGS | {"FAKE_PERIOD": "20000"})
    lost, trials, gpu, epochs = json.loads(said[-1])
    assert lost == 1
    assert trials > 0
    assert gpu is None
    assert epochs > 1
