"""Tuning inside a real ``fit``: nothing lost, nothing retraced, the best found is left in the dataset."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.callbacks import PipelineTuner
from autopipe.errors import ArgumentError
from autopipe.runtime import _observers

pytestmark = [
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning"),
    pytest.mark.filterwarnings("ignore:GPU utilization:autopipe.telemetry.TelemetryWarning"),
]
ROWS = 48


class Recorder(keras.Model):
    """A model that writes down every element it trains on, and counts how often its step is traced."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.seen = []
        self.traces = 0

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        self.traces += 1
        x, _ = data
        tf.py_function(lambda rows: self.seen.extend(rows.numpy()[:, 0].astype(int).tolist()), [x], [])
        return super().train_step(data)


def recorder(**arguments):
    model = Recorder()
    model.compile("sgd", "mse", **arguments)
    return model


def rows():
    x = np.arange(ROWS, dtype="float32")[:, None]
    return tf.data.Dataset.from_tensor_slices((x, x))


def identity(x, y):
    return x * 1, y


class Swapper(PipelineTuner):
    """Sets other knobs after every single step, whatever was measured."""

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, logs)
        if self._reading is not None:
            self._reading.dataset.retune({"prefetch.buffer_size": batch % 5 + 1, "thread_pool.size": batch % 3})


PIPELINES = {
    "plain": lambda: rows().map(identity).batch(4),
    "shuffled": lambda: rows().map(identity).shuffle(20).batch(4),
    "cached": lambda: rows().map(identity).cache().shuffle(20).batch(4),
}


@pytest.mark.parametrize("per_execution", [1, 3])
@pytest.mark.parametrize("name", PIPELINES)
def test_every_element_is_seen_once_per_epoch_when_every_step_swaps(name, per_execution):
    model = recorder(steps_per_execution=per_execution)
    history = model.fit(
        autopipe.optimize(PIPELINES[name]()), epochs=3, verbose=0, callbacks=[Swapper(verbose=0, window_seconds=0.01)]
    )
    assert sorted(model.seen) == sorted([*range(ROWS)] * 3)
    assert len(history.history["input_stall"]) == 3


def test_every_element_is_seen_once_per_epoch_under_repeat_with_steps_per_epoch():
    model = recorder()
    dataset = autopipe.optimize(rows().map(identity).shuffle(ROWS).repeat().batch(4))
    model.fit(
        dataset, epochs=3, steps_per_epoch=ROWS // 4, verbose=0, callbacks=[Swapper(verbose=0, window_seconds=0.01)]
    )
    epochs = [model.seen[start : start + ROWS] for start in range(0, 3 * ROWS, ROWS)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(ROWS))] * 3


def test_validation_data_is_read_in_between_and_left_alone():
    model = recorder()
    training, validation = (autopipe.optimize(rows().map(identity).batch(4)) for _ in range(2))
    before = validation.knobs
    tuner = PipelineTuner(trials=2, window_seconds=0.01, verbose=0, seed=1)
    model.fit(training, validation_data=validation, epochs=3, verbose=0, callbacks=[tuner])
    assert tuner.dataset is training
    assert validation.knobs == before
    assert sorted(model.seen) == sorted([*range(ROWS)] * 3)


def test_swaps_do_not_retrace_the_train_step():
    plain, tuned = recorder(), recorder()
    plain.fit(rows().map(identity).batch(4), epochs=3, verbose=0)
    tuned.fit(autopipe.optimize(rows().map(identity).batch(4)), epochs=3, verbose=0, callbacks=[Swapper(verbose=0)])
    assert tuned.traces == plain.traces


def test_the_same_losses_with_and_without_the_tuner_where_the_sequence_is_kept():
    def losses(callbacks):
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        data = rows().map(lambda x, y: (x / ROWS, y / ROWS)).shuffle(ROWS, seed=5).batch(4)
        dataset = autopipe.optimize(data, keeps="sequence") if callbacks else data
        return model.fit(dataset, epochs=4, verbose=0, callbacks=callbacks).history["loss"]

    try:
        assert losses([Swapper(verbose=0, window_seconds=0.01)]) == losses([])
    finally:
        tf.random.set_seed(None)


def test_with_a_memory_cache_the_search_begins_when_it_is_full():
    model = recorder()
    dataset = autopipe.optimize(rows().repeat(8).map(identity).cache().batch(4))
    epochs = []

    class Watch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            epochs.append(tuner.search is not None and tuner.search.first is not None)

    tuner = PipelineTuner(trials=1, window_seconds=0.001, objective="rate", verbose=0)
    model.fit(dataset, epochs=4, verbose=0, callbacks=[tuner, Watch()])
    assert epochs[0] is False
    assert epochs[-1] is True
    assert len(tuner.search.trials) == 1


def slow(x, y):
    return tf.numpy_function(_wait, [x], tf.float32), y


def _wait(x):
    import time

    time.sleep(0.004)
    return x


def test_finds_the_threads_that_a_waiting_stage_needs(tmp_path, capsys):
    """A map that waits 4 ms an element: two threads cap it at 500 elements/s whatever its parallel calls."""
    waiting = rows().repeat(30).map(slow, num_parallel_calls=2)
    data = waiting.map(lambda x, y: (tf.ensure_shape(x, [1]), y)).batch(4)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    dataset = autopipe.optimize(data)
    tuner = PipelineTuner(trials=8, window_seconds=0.1, seed=2, plan=tmp_path / "plan.json")

    model.fit(dataset, epochs=2, verbose=0, callbacks=[tuner])

    last_line = capsys.readouterr().out.strip().splitlines()[-1]
    assert last_line.startswith("autopipe: busy ")
    assert dataset.knobs == tuner.best
    assert any(trial.kept for trial in tuner.search.trials)
    assert tuner.search.last.busy > tuner.search.first.busy
    plan = autopipe.Plan.load(tmp_path / "plan.json")
    assert autopipe.optimize(data, plan=plan).knobs == tuner.best


def test_warns_once_when_fit_reads_no_optimized_dataset():
    model = recorder()
    with pytest.warns(UserWarning, match="follows a dataset that autopipe.optimize\\(\\) returned") as caught:
        model.fit(rows().batch(4), epochs=3, verbose=0, callbacks=[PipelineTuner(verbose=0)])
    assert sum("PipelineTuner" in str(each.message) for each in caught) == 1


def test_an_exception_in_training_leaves_no_listener_behind():
    class Boom(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise RuntimeError("boom")

    def run():
        with pytest.raises(RuntimeError, match="boom"):
            recorder().fit(autopipe.optimize(rows().batch(4)), verbose=0, callbacks=[PipelineTuner(verbose=0), Boom()])

    import gc

    run()
    gc.collect()
    assert not list(_observers)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"trials": -1}, "trials must be >= 0, but got -1"),
        ({"window_seconds": 0}, "window_seconds must be > 0"),
        ({"objective": "speed"}, "objective must be auto, busy, gpu, rate, but got 'speed'"),
    ],
)
def test_a_wrong_argument_is_named(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        PipelineTuner(**arguments)
