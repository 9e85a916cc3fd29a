"""Tuning inside a real ``fit``: nothing lost, nothing retraced, the best found is left in the dataset."""

import gc
import math
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from recording import MOST_EPOCHS, ROWS, Recorder, fit_until, fit_until_a_trial_ended, identity, rows

import autopipe
from autopipe.callbacks import PipelineTuner
from autopipe.errors import ArgumentError
from autopipe.runtime.readings import observers
from autopipe.tuning.live import searches
from autopipe.tuning.live.next_epoch import NextEpoch

EAGER = {"trials": 2, "window_seconds": 0.001, "most_loss": math.inf, "objective": "rate", "seed": 1, "verbose": 0}

pytestmark = [
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning"),
    pytest.mark.filterwarnings("ignore:GPU utilization:autopipe.telemetry.TelemetryWarning"),
]


class Swapper(PipelineTuner):
    """Sets other knobs before every single step, whatever was measured."""

    def on_train_batch_begin(self, batch, logs=None):
        super().on_train_batch_begin(batch, logs)
        if self._reading is not None:
            self._reading.dataset.retune({"prefetch.buffer_size": batch % 5 + 1, "thread_pool.size": batch % 3})


PIPELINES = {
    "plain": lambda: rows().map(identity).batch(8),
    "shuffled": lambda: rows().map(identity).shuffle(20).batch(8),
    "cached": lambda: rows().map(identity).cache().shuffle(20).batch(8),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("per_execution", [1, 3])
@pytest.mark.parametrize("name", PIPELINES)
def test_every_element_is_seen_once_per_epoch_when_every_step_swaps(name, per_execution):
    model = Recorder(steps_per_execution=per_execution)
    history = model.fit(
        autopipe.optimize(PIPELINES[name](), seconds=0),
        epochs=2,
        verbose=0,
        callbacks=[Swapper(verbose=0, window_seconds=0.01)],
    )
    assert sorted(model.seen) == sorted([*range(ROWS)] * 2)
    assert len(history.history["input_stall"]) == 2


def test_every_element_is_seen_once_per_epoch_under_repeat_with_steps_per_epoch():
    model = Recorder()
    dataset = autopipe.optimize(rows().map(identity).shuffle(ROWS).repeat().batch(8), seconds=0)
    model.fit(
        dataset, epochs=3, steps_per_epoch=ROWS // 8, verbose=0, callbacks=[Swapper(verbose=0, window_seconds=0.01)]
    )
    epochs = [model.seen[start : start + ROWS] for start in range(0, 3 * ROWS, ROWS)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(ROWS))] * 3


def test_validation_data_is_read_in_between_and_left_alone():
    model = Recorder()
    training, validation = (autopipe.optimize(rows().map(identity).batch(4), seconds=0) for _ in range(2))
    before = validation.knobs
    tuner = PipelineTuner(trials=2, window_seconds=0.01, most_loss=math.inf, verbose=0, seed=1)
    model.fit(training, validation_data=validation, epochs=3, verbose=0, callbacks=[tuner])
    assert tuner.dataset is training
    assert validation.knobs == before
    assert sorted(model.seen) == sorted([*range(ROWS)] * 3)


def test_training_that_is_too_short_for_a_trial_is_left_alone_and_told_so(capsys):
    model, dataset = Recorder(), autopipe.optimize(rows().map(identity).batch(4), seconds=0)
    tuner = PipelineTuner(trials=2, window_seconds=0.01, seed=1)
    fit_until(lambda: tuner.search and tuner.search.first, model, dataset, tuner)
    said = capsys.readouterr().out
    assert f"no trial was made, since it was expected to cost more than {tuner.search.share_to_lose:.2%} of" in said
    assert "most_loss=0.01" in said
    assert not tuner.search.trials
    assert tuner.search.swap_seconds == 0


def test_swaps_do_not_retrace_the_train_step():
    plain, tuned = Recorder(), Recorder()
    plain.fit(rows().map(identity).batch(8), epochs=3, verbose=0)
    tuned.fit(
        autopipe.optimize(rows().map(identity).batch(8), seconds=0), epochs=3, verbose=0, callbacks=[Swapper(verbose=0)]
    )
    assert tuned.traces == plain.traces


def test_the_same_losses_with_and_without_the_tuner_where_the_sequence_is_kept():
    def losses(callbacks):
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        data = rows().map(lambda x, y: (x / ROWS, y / ROWS)).shuffle(ROWS, seed=5).batch(8)
        dataset = autopipe.optimize(data, keeps="sequence", seconds=0) if callbacks else data
        return model.fit(dataset, epochs=3, verbose=0, callbacks=callbacks).history["loss"]

    try:
        assert losses([Swapper(verbose=0, window_seconds=0.01)]) == losses([])
    finally:
        tf.random.set_seed(None)


def test_with_a_memory_cache_the_search_begins_when_it_is_full():
    model = Recorder()
    dataset = autopipe.optimize(rows().repeat(8).map(identity).cache().batch(4), seconds=0)
    epochs = []

    class Watch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            epochs.append(tuner.search is not None and tuner.search.first is not None)

    tuner = PipelineTuner(trials=1, window_seconds=0.001, most_loss=math.inf, objective="rate", verbose=0)
    fit_until_a_trial_ended(model, dataset, tuner, Watch())
    assert epochs[0] is False
    assert epochs[-1] is True
    assert len(tuner.search.trials) == 1


def slow(x, y):
    return tf.numpy_function(_wait, [x], tf.float32), y


def _wait(x):
    time.sleep(0.01)
    return x


def test_finds_the_threads_that_a_waiting_stage_needs(tmp_path, capsys):
    """A map that waits 10 ms an element: two threads cap it at 200 elements/s whatever its parallel calls."""
    waiting = rows().repeat(30).map(slow, num_parallel_calls=2)
    data = waiting.map(lambda x, y: (tf.ensure_shape(x, [1]), y)).batch(4)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    dataset = autopipe.optimize(data, seconds=0)
    tuner = PipelineTuner(
        trials=8, objective="rate", window_seconds=0.1, most_loss=math.inf, seed=2, plan=tmp_path / "plan.json"
    )

    model.fit(dataset, epochs=2, verbose=0, callbacks=[tuner])

    last_line = capsys.readouterr().out.strip().splitlines()[-1]
    assert last_line.startswith("autopipe: rate ")
    assert dataset.knobs == tuner.best
    assert any(trial.kept for trial in tuner.search.trials)
    assert tuner.search.last.rate > 1.5 * tuner.search.first.rate
    plan = autopipe.Plan.load(tmp_path / "plan.json")
    assert autopipe.optimize(data, plan=plan).knobs == tuner.best


def test_a_loop_of_ones_own_is_tuned_and_every_element_seen_once_per_epoch():
    seen, epochs = [], 0
    dataset = autopipe.optimize(rows().map(identity).shuffle(20).batch(4), seconds=0)
    with PipelineTuner(
        trials=4, window_seconds=0.001, most_loss=math.inf, objective="rate", verbose=0, seed=1
    ) as tuner:
        while epochs < MOST_EPOCHS and not (tuner.search and tuner.search.trials):
            epochs += 1
            for x, _ in dataset:
                seen.extend(x.numpy()[:, 0].astype(int).tolist())
                tuner.step()
    assert sorted(seen) == sorted([*range(ROWS)] * epochs)
    assert tuner.search.trials
    assert dataset.knobs == tuner.best
    assert tuner not in observers()


def test_an_error_in_a_loop_of_ones_own_leaves_the_best_knobs_and_no_listener():
    dataset = autopipe.optimize(rows().map(identity).batch(4), seconds=0)
    tuner = PipelineTuner(trials=4, window_seconds=0.001, most_loss=math.inf, objective="rate", verbose=0, seed=1)
    with pytest.raises(RuntimeError, match="boom"), tuner:
        for _ in range(3):
            for _ in dataset:
                tuner.step()
        raise RuntimeError("boom")
    assert dataset.knobs == tuner.best
    assert tuner not in observers()


def test_a_cache_that_one_iterator_fills_in_several_epochs_is_full_before_the_search_begins():
    dataset = autopipe.optimize(rows().map(identity).cache().repeat().batch(4), rules=(), seconds=0)
    tuner, begun = PipelineTuner(trials=2, window_seconds=0.01, verbose=0), []

    class Note(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            begun.append((dataset.caches_are_full, tuner.search is not None))

    steps = ROWS // 4 // 2
    Recorder().fit(dataset, epochs=5, steps_per_epoch=steps, verbose=0, callbacks=[tuner, Note()])
    assert begun[0] == (False, False)
    assert begun[-1] == (True, True)
    assert (False, True) not in begun


@pytest.mark.parametrize("keeping", [lambda rows: rows.cache(), lambda rows: rows.filter(lambda x, y: True).cache()])
def test_one_iterator_of_a_loop_that_fills_a_cache_is_searched_once_nothing_more_comes_into_it(monkeypatch, keeping):
    monkeypatch.setattr("autopipe.callbacks.pipeline_tuner._SECONDS_BETWEEN_ASKING", 0.0)
    endless = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
    dataset = autopipe.optimize(keeping(rows().map(identity)).repeat().batch(4).apply(endless), rules=(), seconds=0)
    with PipelineTuner(trials=1, window_seconds=0.001, objective="rate", verbose=0, seed=1) as tuner:
        for step, _ in enumerate(dataset):
            tuner.step()
            if step < ROWS // 4 - 2:
                assert tuner.search is None
            if tuner.search is not None or step > 200 * ROWS:
                break
    assert tuner.search is not None


def test_the_time_of_an_evaluation_in_mid_epoch_is_none_of_a_window():
    class SlowToTest(Recorder):
        def test_step(self, data):
            tf.py_function(lambda: time.sleep(0.2), [], [])
            return super().test_step(data)

    class Evaluate(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch % 8 == 7:
                self.model.evaluate(rows().take(4).batch(4), verbose=0, callbacks=[tuner])

    tuner = PipelineTuner(window_seconds=0.001, objective="rate", most_loss=0, verbose=0)
    dataset = autopipe.optimize(rows().repeat(2).map(identity).batch(1), seconds=0)
    fit_until(lambda: tuner.search and tuner.search.first, SlowToTest(), dataset, tuner, Evaluate())
    assert tuner.search.first.seconds < 0.2


def test_trials_are_counted_in_the_logs():
    model = Recorder()
    tuner = PipelineTuner(trials=2, window_seconds=0.001, most_loss=math.inf, objective="rate", verbose=0, seed=1)
    history = model.fit(
        autopipe.optimize(rows().map(identity).batch(4), seconds=0), epochs=4, verbose=0, callbacks=[tuner]
    )
    counts = history.history["pipeline_trials"]
    assert counts == sorted(counts)
    assert counts[-1] == len(tuner.search.trials)
    assert all(rate > 0 for rate in history.history["steps_per_second"])


def test_the_search_begins_anew_when_training_waits_for_good(monkeypatch):
    monkeypatch.setattr(searches, "_WATCHING_SECONDS", 0.02)
    pause = 0.0

    def waiting(x, y):
        return tf.ensure_shape(tf.numpy_function(lambda z: (time.sleep(pause), z)[1], [x], tf.float32), [1]), y

    dataset = autopipe.optimize(rows().repeat(4).map(waiting).batch(4), seconds=0)
    with PipelineTuner(trials=1, window_seconds=0.02, most_loss=math.inf, verbose=0, seed=1) as tuner:

        def train_until(it_holds):
            for _ in range(100):
                for _ in dataset:
                    time.sleep(0.004)
                    tuner.step()
                if it_holds():
                    return

        train_until(lambda: tuner.search and tuner.search.finished)
        before = len(tuner._searches)
        pause = 0.01
        train_until(lambda: len(tuner._searches) > before)
    assert len(tuner._searches) > before


def test_once_settled_it_counts_every_step_and_looks_at_few(monkeypatch):
    counted = []
    step = NextEpoch.step

    def noted(self, reading, *, steps, start):
        counted.append((reading, steps))
        step(self, reading, steps=steps, start=start)

    monkeypatch.setattr(NextEpoch, "step", noted)
    dataset = autopipe.optimize(rows().map(identity).batch(1), rules=[])
    tuner = PipelineTuner(trials=0, verbose=0, window_seconds=0.01)
    Recorder().fit(dataset, epochs=20, verbose=0, callbacks=[tuner])
    of_reading = {id(reading): 0 for reading, _ in counted}
    for reading, steps in counted:
        of_reading[id(reading)] += steps
    assert len(of_reading) == 20
    # Keras does not tell of the end of an epoch's last step.
    assert set(of_reading.values()) == {ROWS - 1}
    assert len(counted) < 20 * (ROWS - 1) / 2


def test_warns_once_when_fit_reads_no_optimized_dataset():
    model = Recorder()
    with pytest.warns(UserWarning, match="follows a dataset that autopipe.optimize\\(\\) returned") as caught:
        model.fit(rows().batch(4), epochs=3, verbose=0, callbacks=[PipelineTuner(verbose=0)])
    assert sum("PipelineTuner" in str(each.message) for each in caught) == 1


def test_an_exception_in_training_leaves_no_listener_behind():
    class Boom(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise RuntimeError("boom")

    def run():
        with pytest.raises(RuntimeError, match="boom"):
            Recorder().fit(
                autopipe.optimize(rows().batch(4), seconds=0), verbose=0, callbacks=[PipelineTuner(verbose=0), Boom()]
            )

    of_others = set(observers())
    run()
    gc.collect()
    assert set(observers()) <= of_others


def test_a_training_too_short_for_a_search_is_told_and_a_plan_that_is_missing_too(tmp_path, capsys):
    def fit(**arguments):
        dataset = autopipe.optimize(rows().batch(4).cache(), seconds=0)
        Recorder().fit(dataset, steps_per_epoch=1, epochs=1, verbose=0, callbacks=[PipelineTuner(**arguments)])

    fit()
    assert "too short to measure anything" in capsys.readouterr().out
    with pytest.warns(UserWarning, match="ended before a search began, so there is no .*plan.json"):
        fit(plan=tmp_path / "plan.json", trials=0)


def test_a_plan_that_cannot_be_written_at_the_end_does_not_end_fit(tmp_path):
    class Last(keras.callbacks.Callback):
        ended = False

        def on_epoch_end(self, epoch, logs=None):
            if folder.exists():
                folder.rmdir()

        def on_train_end(self, logs=None):
            self.ended = True

    folder = tmp_path / "plans"
    folder.mkdir()
    last = Last()
    tuner = PipelineTuner(plan=folder / "plan.json", verbose=0)
    dataset = autopipe.optimize(rows().batch(4), seconds=0)
    with pytest.warns(UserWarning, match=r"must be able to write its plan .* got '.*plan\.json'.* tuner\.plan\.save"):
        history = Recorder().fit(dataset, epochs=2, verbose=0, callbacks=[tuner, last])
    assert len(history.epoch) == 2
    assert last.ended
    tuner.plan.save(tmp_path / "plan.json")


def test_a_search_space_may_be_named():
    assert PipelineTuner(space="low_memory").space is autopipe.search_spaces.low_memory


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"trials": -1}, "trials must be a whole number >= 0, but got -1"),
        ({"trials": "3"}, "trials must be a whole number >= 0, but got '3'"),
        ({"trials": 2.5}, "trials must be a whole number >= 0, but got 2.5"),
        ({"window_seconds": 0}, "window_seconds must be a finite number > 0, but got 0"),
        ({"window_seconds": math.inf}, "window_seconds must be a finite number > 0, but got inf"),
        ({"most_loss": None}, "most_loss must be a number >= 0, but got None"),
        ({"ram_budget": "1GB"}, "ram_budget must be a number of bytes >= 0, but got '1GB'"),
        ({"seed": -1}, "seed must be a whole number >= 0, but got -1"),
        ({"seed": 2**40}, "seed must be a whole number <= 4294967295, but got 1099511627776"),
        ({"objective": "speed"}, "objective must be one of auto, busy, gpu, rate, but got 'speed'"),
        ({"space": "tiny"}, "A search space must be one of default, .*, but got 'tiny'"),
        ({"space": 5}, "A search space must be one of default, .*, but got 5"),
        ({"study": "sqlite:///study.db"}, "study must be an Optuna study, but got 'sqlite:///study.db'"),
        ({"on_trial": 5}, "on_trial must be a function of a trial, but got 5"),
        ({"plan": "nowhere/plan.json"}, "plan must be a file in a folder that can be written to, but got 'nowhere"),
        ({"plan": ""}, "plan must be a file in a folder"),
        ({"plan": "."}, "plan must be a file in a folder"),
    ],
)
def test_a_wrong_argument_is_named(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        PipelineTuner(**arguments)


def test_every_epoch_has_the_same_figures_in_its_logs_also_the_one_that_fills_a_cache():
    dataset = autopipe.optimize(rows().map(identity).cache().batch(4), seconds=0)
    history = Recorder().fit(dataset, epochs=3, verbose=0, callbacks=[PipelineTuner(**EAGER)]).history
    assert {len(values) for values in history.values()} == {3}
    assert history["pipeline_trials"][0] == 0


@pytest.mark.filterwarnings("ignore:GPU utilization:autopipe.telemetry.TelemetryWarning")
def test_where_there_is_no_gpu_to_go_by_it_says_by_what_it_goes():
    dataset = autopipe.optimize(rows().map(identity).batch(4), seconds=0)
    tuner = PipelineTuner(**{**EAGER, "objective": "gpu"})
    with pytest.warns(UserWarning, match='objective="gpu" must have GPUs .* as with objective="busy"'):
        fit_until_a_trial_ended(Recorder(), dataset, tuner)
    assert tuner.search.objective == "busy"
    assert tuner.plan.measured["objective"] == "busy"


def test_what_was_said_of_one_training_is_not_said_again_of_the_next(capsys):
    tuner = PipelineTuner()
    for _fit in range(3):
        dataset = autopipe.optimize(rows().batch(4), seconds=0)
        Recorder().fit(dataset, steps_per_epoch=1, epochs=1, verbose=0, callbacks=[tuner])
    assert capsys.readouterr().out.count("too short to measure anything") == 1


def test_an_iterator_that_cannot_be_changed_is_told_of(capsys):
    data = tf.data.Dataset.from_generator(
        lambda: ((np.ones(1), np.ones(1)) for _ in range(10**6)),
        output_signature=(tf.TensorSpec([1]), tf.TensorSpec([1])),
    )
    dataset = autopipe.optimize(data.map(identity).batch(4).prefetch(1), seconds=0)
    tuner = PipelineTuner(**{**EAGER, "verbose": 1})
    Recorder().fit(dataset, epochs=2, steps_per_epoch=100, verbose=0, callbacks=[tuner])
    assert "no trial came to its end: training ended before, or read one iterator" in capsys.readouterr().out
