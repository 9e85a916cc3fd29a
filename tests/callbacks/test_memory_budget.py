"""What the process grows by while it is tuned, and what of that a challenger answers for."""

import itertools
import math

import keras
import pytest
from recording import MOST_EPOCHS, Recorder, fit_until_a_trial_ended, identity, rows

import autopipe
from autopipe.callbacks import PipelineTuner
from autopipe.tuning.live import memory_guard

pytestmark = [
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning"),
    pytest.mark.filterwarnings("ignore:GPU utilization:autopipe.telemetry.TelemetryWarning"),
]


def test_what_fills_a_cache_is_no_growth_that_a_challenger_answers_for(monkeypatch):
    dataset = autopipe.optimize(rows().map(identity).cache().batch(4), rules=(), seconds=0)
    monkeypatch.setattr(memory_guard, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(memory_guard, "resident_bytes", lambda: 10**9 if dataset.caches_are_full else 0)
    short = {"trials": 1, "window_seconds": 0.001, "most_loss": math.inf, "verbose": 0}
    tuner = PipelineTuner(objective="rate", ram_budget=10**6, **short)
    fit_until_a_trial_ended(Recorder(), dataset, tuner)
    assert [trial.failure for trial in tuner.search.trials] == [""]


def test_what_a_validation_dataset_keeps_is_no_growth_that_a_challenger_answers_for(monkeypatch):
    trials_before = []

    class Validate(keras.callbacks.Callback):
        def on_test_begin(self, logs=None):
            if tuner.search is not None:
                trials_before.append(len(tuner.search.trials))

        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = bool(trials_before) and len(tuner.search.trials) > trials_before[0]

    dataset = autopipe.optimize(rows().map(identity).batch(4), seconds=0)
    monkeypatch.setattr(memory_guard, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(memory_guard, "resident_bytes", lambda: 10**9 if trials_before else 0)
    tuner = PipelineTuner(window_seconds=0.001, objective="rate", most_loss=math.inf, ram_budget=10**6, verbose=0)
    Recorder().fit(
        dataset, validation_data=rows().batch(4), epochs=MOST_EPOCHS, verbose=0, callbacks=[tuner, Validate()]
    )
    assert len(tuner.search.trials) > trials_before[0]
    assert {trial.failure for trial in tuner.search.trials} == {""}


def test_what_crosses_the_memory_budget_is_taken_back_at_once(monkeypatch):
    dataset = autopipe.optimize(rows().repeat(MOST_EPOCHS).map(identity).batch(4), seconds=0)
    before = dataset.knobs
    grown = []
    monkeypatch.setattr(memory_guard, "_LOOK_SECONDS", 0.0)
    short = {"trials": 3, "window_seconds": 0.001, "most_loss": math.inf, "verbose": 0, "seed": 1}
    tuner = PipelineTuner(objective="rate", ram_budget=10**6, **short)
    monkeypatch.setattr(
        memory_guard, "resident_bytes", lambda: 10**9 if tuner.search and tuner._reading.knobs != before else 0
    )
    with tuner:
        for _ in dataset:
            tuner.step()
            grown.append(tuner._reading.knobs != before)
            if len(tuner.search.trials) == 3:
                break
    assert dataset.knobs == before
    assert len(tuner.search.trials) == 3
    assert {trial.failure for trial in tuner.search.trials} == {"the process grew by more than the budget of 977 KiB"}
    # Never two steps in a row with what crossed it.
    assert not any(one and other for one, other in itertools.pairwise(grown))
