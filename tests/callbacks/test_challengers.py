"""Which iterators run with the knobs of a challenger, and until when."""

import itertools
import math

import keras
import pytest
import tensorflow as tf
from recording import MOST_EPOCHS, ROWS, Recorder, fit_until, fit_until_a_trial_ended, identity, rows

import autopipe
from autopipe.callbacks import PipelineTuner
from autopipe.tuning.live.switch import Switch

pytestmark = [
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning"),
    pytest.mark.filterwarnings("ignore:GPU utilization:autopipe.telemetry.TelemetryWarning"),
]


@pytest.mark.timed
@pytest.mark.parametrize("in_loop", [False, True], ids=["fit", "loop"])
def test_where_a_swap_takes_longer_than_an_epoch_is_worth_only_their_iterators_differ(in_loop, monkeypatch):
    monkeypatch.setattr(Switch, "_swap_seconds", property(lambda self: 1e9, lambda self, seconds: None), raising=False)

    class Noting(PipelineTuner):
        def _step_ended(self):
            super()._step_ended()
            if self._reading is not None:
                by_reading.setdefault(self._reading, []).append((self._reading.knobs, dataset.knobs))

    by_reading = {}
    model, dataset = Recorder(), autopipe.optimize(rows().map(identity).shuffle(20).batch(4), seconds=0)
    tuner = Noting(trials=3, window_seconds=0.001, most_loss=1.0, objective="rate", verbose=0, seed=1)

    def enough():
        return tuner.search and len(tuner.search.trials) >= 2

    if in_loop:
        epochs = 0
        with tuner:
            while epochs < MOST_EPOCHS and not enough():
                epochs += 1
                for x, _ in dataset:
                    model.seen.extend(x.numpy()[:, 0].astype(int).tolist())
                    tuner.step()
    else:
        epochs = fit_until(enough, model, dataset, tuner)
    assert enough()
    assert sorted(model.seen) == sorted([*range(ROWS)] * epochs)
    # How long an epoch lasts is known from the third on, once the first has begun cold.
    later = list(by_reading.values())[2:]
    for before, now in itertools.chain.from_iterable(map(itertools.pairwise, later)):
        assert now[0] == before[0]
    assert any(knobs != best for reading in later for knobs, best in reading)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("in_first_step", [False, True], ids=["in mid-epoch", "in the first step"])
@pytest.mark.parametrize("steps_per_epoch", [None, 10], ids=["an iterator an epoch", "one for all"])
def test_an_exception_in_the_middle_of_a_trial_leaves_no_challenger_in_the_dataset(steps_per_epoch, in_first_step):
    # The first epoch is too short for a search to end in it.
    repeats = 5 if steps_per_epoch is None else 2000
    dataset = autopipe.optimize(rows().repeat(repeats).map(identity).batch(4), seconds=0)
    tuner = PipelineTuner(trials=99, window_seconds=0.001, most_loss=math.inf, objective="rate", verbose=0, seed=1)

    class Boom(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            is_here = self.epoch > 0 and in_first_step is (batch == 0)
            if is_here and tuner.search is not None and tuner.search.challenging:
                raise RuntimeError("boom")

        def on_epoch_begin(self, epoch, logs=None):
            self.epoch = epoch

    with pytest.raises(RuntimeError, match="boom"):
        Recorder().fit(dataset, epochs=99, steps_per_epoch=steps_per_epoch, verbose=0, callbacks=[tuner, Boom()])
        pytest.fail(f"no challenger ran at the end of such a step: {tuner.summary()}")
    assert tuner.search.running != dataset.knobs == tuner.best
    for _ in range(2):
        iterator = iter(dataset)
        assert iterator._autopipe_reading.knobs == tuner.best
        assert next(iterator) is not None


def test_an_exception_before_the_first_step_leaves_a_challenger_in_one_iterator_at_the_most():
    dataset = autopipe.optimize(rows().map(identity).batch(4), seconds=0)
    tuner = PipelineTuner(trials=99, window_seconds=0.001, most_loss=math.inf, objective="rate", verbose=0, seed=1)

    class Boom(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if tuner.search is not None and tuner.search.challenging:
                raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        Recorder().fit(dataset, epochs=MOST_EPOCHS, verbose=0, callbacks=[tuner, Boom()])
    _, *others = (iter(dataset) for _ in range(3))
    assert [each._autopipe_reading.knobs for each in others] == [tuner.best, tuner.best]


@pytest.mark.filterwarnings("ignore:Your input ran out of data:UserWarning")
def test_a_generator_which_cannot_be_changed_midway_is_tuned_from_epoch_to_epoch():
    def numbers():
        yield from (([float(number)], [float(number)]) for number in range(ROWS))

    spec = tf.TensorSpec((1,), tf.float32)
    written = tf.data.Dataset.from_generator(numbers, output_signature=(spec, spec)).map(identity, 2).batch(4)
    dataset = autopipe.optimize(written, seconds=0)
    model = Recorder()
    tuner = PipelineTuner(trials=2, window_seconds=0.001, objective="rate", verbose=0, seed=1, most_loss=math.inf)
    epochs = fit_until_a_trial_ended(model, dataset, tuner)
    assert tuner.search.trials
    assert sorted(model.seen) == sorted([*range(ROWS)] * epochs)


def test_a_trial_goes_on_in_the_next_epoch():
    model = Recorder()
    dataset = autopipe.optimize(rows().map(identity).batch(4), seconds=0)
    # A window is longer than an epoch.
    tuner = PipelineTuner(trials=2, window_seconds=0.05, objective="rate", verbose=0, seed=1, most_loss=math.inf)
    epochs = fit_until_a_trial_ended(model, dataset, tuner)
    assert tuner.search.trials
    assert sorted(model.seen) == sorted([*range(ROWS)] * epochs)


def test_in_the_next_epoch_a_challenger_has_the_iterator_from_its_start():
    dataset = autopipe.optimize(rows().map(identity).batch(4), seconds=0)
    with PipelineTuner(window_seconds=0.001, most_loss=math.inf, objective="rate", verbose=0, seed=1) as tuner:
        for _ in range(MOST_EPOCHS):
            for _ in dataset:
                tuner.step()
            if tuner.search is not None and tuner.search.challenging:
                break
        iterator = iter(dataset)
        assert iterator._autopipe_reading.knobs == tuner.search.running != dataset.knobs
        assert sum(len(x) for x, _ in iterator) == ROWS
