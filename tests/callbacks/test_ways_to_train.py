"""Whatever way people train, every element is seen once per epoch with a swap after every step."""

import gc
import time

import keras
import pytest
import tensorflow as tf
from recording import ROWS, WHOLE, Recorder, rows
from small_trainings import BATCH, STEPS, beside, dataset, same, train

import autopipe
from autopipe.callbacks import PipelineMonitor, PipelineTuner
from autopipe.pipeline import trees
from autopipe.runtime.readings import observers

pytestmark = [
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning"),
    pytest.mark.filterwarnings("ignore:GPU utilization:autopipe.telemetry.TelemetryWarning"),
]


class Swapper(PipelineTuner):
    """Sets other knobs after every single step."""

    def __init__(self, **arguments):
        super().__init__(verbose=0, window_seconds=0.001, objective="rate", seed=1, **arguments)
        self.swaps = 0

    def _step_ended(self):
        super()._step_ended()
        if self._reading is not None:
            self.swaps += 1
            knobs = {"prefetch.buffer_size": self.swaps % 5 + 1, "thread_pool.size": self.swaps % 3}
            self._reading.dataset.retune(knobs)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("one_tuner", [False, True], ids=["a tuner each", "one tuner"])
def test_several_fits_in_a_row(one_tuner):
    model, data = Recorder(), dataset()
    tuner = Swapper(trials=2)
    for _ in range(2):
        tuner = tuner if one_tuner else Swapper(trials=2)
        train(model, data, [tuner], epochs=2)
        assert data.knobs == tuner.best
    assert model.sorted_epochs == [WHOLE] * 4
    assert tuner not in observers()


def test_several_datasets_at_once():
    """Two models are trained in turn, each from a dataset of its own, inside one another's callbacks."""
    inner_model, inner_data = Recorder(), dataset()
    outer_model, outer_data = Recorder(), dataset()
    inner = Swapper(trials=2)

    class TrainAnother(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            train(inner_model, inner_data, [inner], epochs=2)

    outer = Swapper(trials=2)
    train(outer_model, outer_data, [outer, TrainAnother()], epochs=2)
    assert outer_model.sorted_epochs == [WHOLE] * 2
    assert inner_model.sorted_epochs == [WHOLE] * 4
    assert inner.dataset is inner_data


def test_another_dataset_is_evaluated_in_the_midst_of_an_epoch():
    """Keras does not tell the callbacks of ``fit`` of an ``evaluate`` that another callback calls."""
    other = beside()

    class EvaluateNowAndThen(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 3:
                self.model.evaluate(other, verbose=0)

    model, data = Recorder(), dataset()
    knobs, tuner, monitor = other.knobs, Swapper(trials=2), PipelineMonitor()
    train(model, data, [tuner, EvaluateNowAndThen()], epochs=3)
    assert model.sorted_epochs == [WHOLE] * 3
    assert tuner.dataset is data
    # Keras does not tell of the end of an epoch's last step.
    assert tuner.swaps == 3 * (STEPS - 1)
    assert other.knobs == knobs
    train(model, data, [monitor, EvaluateNowAndThen()], epochs=3)
    assert monitor.profile.stretch.elements == 3 * STEPS


def test_a_loop_reads_another_dataset_in_the_midst_of_an_epoch():
    other, monitor = beside(), PipelineMonitor()
    with monitor:
        for _ in range(2):
            for step, _ in enumerate(dataset()):
                monitor.step()
                assert step != 3 or len(list(other)) == ROWS // 6
    assert monitor.profile.epochs == 2
    assert monitor.profile.stretch.elements == 2 * STEPS


def test_a_loop_that_validates_after_each_epoch_has_only_epochs_of_training():
    train_on, validate_on = dataset(), beside()
    monitor, tuner = PipelineMonitor(), PipelineTuner(verbose=0)
    with monitor, tuner:
        for _ in range(3):
            for _ in train_on:
                monitor.step()
                tuner.step()
            for _ in validate_on:
                time.sleep(0.1)
    assert list(monitor._figures) == [1, 2, 3]
    assert monitor.profile.epochs == 3
    assert monitor.profile.stretch.elements == 3 * STEPS
    assert monitor.profile.stretch.seconds < 3 * 0.1 * ROWS // 6
    assert monitor.profile.stages[-1].place in list(trees.walk(train_on.tree))
    assert tuner.dataset is train_on


def test_a_loop_that_goes_on_to_another_dataset_is_monitored_there_too():
    monitor, then = PipelineMonitor(), beside()
    with monitor:
        for data in (dataset(), then, then):
            for _ in data:
                monitor.step()
    assert list(monitor._figures) == [1, 2, 3]
    assert monitor.profile.stretch.elements == STEPS + 2 * ROWS // 6


def test_a_loop_that_goes_on_to_another_dataset_has_the_first_one_tuned_and_is_told_so():
    first, then = dataset(), beside()
    knobs, tuner = then.knobs, PipelineTuner(verbose=0)

    def loop():
        with tuner:
            for data in (first, then, then):
                for _ in data:
                    tuner.step()

    with pytest.warns(UserWarning, match="tunes one dataset") as told:
        loop()
    assert sum("tunes one dataset" in str(each.message) for each in told) == 1
    assert tuner.dataset is first
    assert then.knobs == knobs


def test_who_was_warned_that_nothing_is_followed_is_still_told_of_a_second_dataset():
    class Read(keras.callbacks.Callback):
        """Holds an iterator over another dataset in each epoch but the first."""

        def on_epoch_end(self, epoch, logs=None):
            self.iterator = None
            self.iterator = iter(dataset())

    with pytest.warns(UserWarning, match="follows a dataset|tunes one dataset") as told:
        train(Recorder(), rows().batch(BATCH), [PipelineTuner(verbose=0), Read()], epochs=3)
    for words in ("follows a dataset", "tunes one dataset"):
        assert sum(words in str(each.message) for each in told) == 1


def test_early_stopping():
    model, data = Recorder(), dataset()
    tuner = Swapper(trials=50)
    train(model, data, [tuner, keras.callbacks.EarlyStopping("loss", patience=0, min_delta=1e9)], epochs=20)
    assert 1 <= len(model.sorted_epochs) < 20
    assert model.sorted_epochs == [WHOLE] * len(model.sorted_epochs)
    assert data.knobs == tuner.best


def test_ctrl_c_leaves_a_dataset_that_trains_on():
    class Interrupt(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 3:
                raise KeyboardInterrupt

    def interrupted():
        with pytest.raises(KeyboardInterrupt):
            train(Recorder(), data, [Swapper(trials=2), Interrupt()])

    data, of_others = dataset(), set(observers())
    interrupted()
    gc.collect()
    assert set(observers()) <= of_others
    model = Recorder()
    train(model, data, [Swapper(trials=2)], epochs=2)
    assert model.sorted_epochs == [WHOLE] * 2


@pytest.mark.one_in(2)
@pytest.mark.parametrize("per_execution", [1, 4])
def test_endless_data_in_epochs_of_so_many_steps(per_execution):
    endless = rows().shuffle(ROWS).map(same).repeat().batch(BATCH)
    data = autopipe.optimize(endless, seconds=0)
    model = Recorder(steps_per_execution=per_execution)
    tuner = Swapper(trials=2)
    train(model, data, [tuner], epochs=3, steps_per_epoch=2 * STEPS)
    assert model.sorted_epochs == [WHOLE] * 6
    assert tuner.swaps


def test_batches_and_a_repeat_after_what_was_optimized():
    """The tuner goes on under both."""
    data = autopipe.optimize(rows().shuffle(ROWS).map(same), seconds=0)
    model = Recorder()
    tuner = Swapper(trials=2)
    train(model, data.batch(BATCH).repeat(), [tuner], epochs=3, steps_per_epoch=STEPS)
    assert model.sorted_epochs == [WHOLE] * 3
    assert tuner.swaps
    assert tuner.dataset is data


def test_train_on_batch():
    model, data = Recorder(), dataset()
    with Swapper(trials=2) as tuner:
        for _ in range(3):
            for x, y in data:
                model.train_on_batch(x, y)
                tuner.step()
    assert model.sorted_epochs == [WHOLE] * 3
    assert tuner.swaps == 3 * STEPS


def test_a_compiled_step_of_ones_own():
    seen, data = [], dataset()

    @tf.function
    def step(iterator):
        x, _ = next(iterator)
        return x[:, 0]

    with Swapper(trials=2) as tuner:
        for _ in range(3):
            iterator = iter(data)
            for _ in range(STEPS):
                seen += step(iterator).numpy().astype(int).tolist()
                tuner.step()
    assert sorted(seen) == sorted(WHOLE * 3)
    assert step.experimental_get_tracing_count() == 1


def test_class_weights():
    """Keras maps the dataset and prefetches from that: the tuner goes on under both, and what it finds stays."""
    model = Recorder()
    data = autopipe.optimize(rows().shuffle(20).map(in_two_classes).batch(BATCH), seconds=0)
    for _ in range(2):
        tuner = Swapper(trials=2)
        train(model, data, [tuner], epochs=2, class_weight={0: 1.0, 1: 2.0})
        assert tuner.swaps >= 2 * (STEPS - 1)
        assert tuner.dataset is data
        assert data.knobs == tuner.best
    assert model.sorted_epochs == [WHOLE] * 4
    assert model.weights_seen == {1.0, 2.0}


def test_a_monitor_sees_what_class_weights_cost():
    monitor = PipelineMonitor()
    data = autopipe.optimize(rows().map(in_two_classes).batch(4), rules=())
    history = train(Recorder(), data, [monitor], epochs=2, class_weight={0: 1.0, 1: 2.0}).history
    assert 0 <= history["input_stall"][1] <= 1
    own, weighing, ahead = [stage.stage for stage in monitor.profile.stages][-3:]
    assert "in_two_classes" in own
    assert weighing.startswith("map(")
    assert "in_two_classes" not in weighing
    assert ahead.startswith("prefetch(")


def in_two_classes(x, y):
    return x, tf.cast(y > ROWS // 2, tf.int64)


@pytest.mark.filterwarnings("ignore:.*follows a dataset that autopipe:UserWarning")
def test_a_strategy_trains_on_it_as_on_any_dataset():
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        mirrored = Recorder()
    train(mirrored, dataset(), [Swapper()], epochs=2)
    assert mirrored.sorted_epochs == [WHOLE] * 2
