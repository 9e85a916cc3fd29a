"""Which of several optimized datasets is trained on: figures are of that one, whatever others are read beside it."""

import keras
import pytest
from recording import ROWS, Recorder, rows
from small_trainings import BATCH, STEPS, beside, dataset, train

import autopipe
from autopipe.callbacks import PipelineMonitor, PipelineTuner
from autopipe.pipeline import trees

pytestmark = [
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning"),
    pytest.mark.filterwarnings("ignore:GPU utilization:autopipe.telemetry.TelemetryWarning"),
]


class HoldAnother(keras.callbacks.Callback):
    """Reads another dataset now and then, by an iterator that it made before the first step."""

    def __init__(self, other):
        super().__init__()
        self.other = other

    def on_train_begin(self, logs=None):
        self.iterator = iter(self.other.repeat())

    def on_epoch_end(self, epoch, logs=None):
        next(self.iterator)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("steps", [1, 2, None], ids=["of a step", "of two", "whole"])
def test_epochs_are_of_the_dataset_that_is_trained_on_though_a_callback_holds_an_iterator_over_another(steps):
    data, monitor = dataset(), PipelineMonitor()
    callbacks = [monitor, HoldAnother(beside())]
    history = train(Recorder(), data, callbacks, epochs=3, steps_per_epoch=steps, shuffle=False).history
    assert monitor.profile.stretch.elements == 3 * (steps or STEPS)
    assert monitor.profile.stages[-1].place in list(trees.walk(data.tree))
    assert len(history["steps_per_second"]) == 3
    assert min(history["steps_per_second"]) > 0


def test_the_dataset_that_is_trained_on_is_tuned_though_a_callback_holds_an_iterator_over_another():
    data, other = dataset(), beside()
    knobs, tuner = other.knobs, PipelineTuner(verbose=0)
    train(Recorder(), data, [tuner, HoldAnother(other)], epochs=2)
    assert tuner.dataset is data
    assert other.knobs == knobs


class LookBeforeEachEpoch(HoldAnother):
    """Reads an element of another dataset before the first step of each epoch, too."""

    def on_epoch_begin(self, epoch, logs=None):
        next(self.iterator)


@pytest.mark.parametrize("steps", [1, None], ids=["of a step", "whole"])
def test_epochs_are_of_the_dataset_that_is_trained_on_though_another_was_read_before_it(steps):
    data, monitor = dataset(), PipelineMonitor()
    callbacks = [monitor, LookBeforeEachEpoch(beside())]
    train(Recorder(), data, callbacks, epochs=3, steps_per_epoch=steps, shuffle=False)
    assert monitor.profile.stages[-1].place in list(trees.walk(data.tree))


class Peek(HoldAnother):
    """Looks at another dataset once, when the first step begins."""

    def on_train_batch_begin(self, batch, logs=None):
        if not batch:
            next(iter(self.other))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("monitor_first", [True, False])
def test_epochs_are_of_the_dataset_that_is_trained_on_though_another_is_looked_at_in_the_first_step(monitor_first):
    data, monitor = dataset(), PipelineMonitor()
    callbacks = [monitor, Peek(beside())] if monitor_first else [Peek(beside()), monitor]
    history = train(Recorder(), data, callbacks, epochs=2, shuffle=False).history
    assert monitor.profile.stages[-1].place in list(trees.walk(data.tree))
    assert min(history["steps_per_second"]) > 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("per_execution", [1, STEPS])
def test_epochs_of_one_execution_are_seen_beside_a_validation(per_execution):
    data = dataset() if per_execution > 1 else autopipe.optimize(rows().batch(ROWS), seconds=0)
    model = Recorder()
    model.compile("sgd", "mse", steps_per_execution=per_execution)
    history = model.fit(
        data, validation_data=rows().batch(BATCH), epochs=3, verbose=0, shuffle=False, callbacks=[PipelineMonitor()]
    ).history
    assert min(history["steps_per_second"]) > 0
    assert len(history["steps_per_second"]) == 3


def test_a_loop_that_tells_of_no_step_is_told_to():
    def loop(data):
        with PipelineMonitor():
            for _ in data:
                pass

    with pytest.warns(UserWarning, match=r"PipelineMonitor.step\(\) must be called after each step .* Call it"):
        loop(dataset())


def test_a_loop_that_holds_an_iterator_over_another_dataset_from_the_beginning_is_followed():
    train_on, validate_on = dataset(), beside()
    knobs, monitor, tuner = validate_on.knobs, PipelineMonitor(), PipelineTuner(verbose=0)
    with monitor, tuner:
        held = iter(validate_on.repeat())
        for _ in range(3):
            for _ in train_on:
                monitor.step()
                tuner.step()
            next(held)
    assert list(monitor._figures) == [1, 2, 3]
    assert monitor.profile.stretch.elements == 3 * STEPS
    assert monitor.profile.stages[-1].place in list(trees.walk(train_on.tree))
    assert tuner.dataset is train_on
    assert validate_on.knobs == knobs


def test_a_loop_that_validates_before_its_first_step_has_no_epoch_of_that():
    train_on, validate_on = dataset(), beside()
    monitor, tuner = PipelineMonitor(), PipelineTuner(verbose=0)
    with monitor, tuner:
        for _ in range(2):
            for _ in validate_on:
                pass
            for _ in train_on:
                monitor.step()
                tuner.step()
    assert list(monitor._figures) == [1, 2]
    assert monitor.profile.epochs == 2
    assert monitor.profile.stretch.elements == 2 * STEPS
    assert tuner.dataset is train_on


def test_of_two_parts_of_one_dataset_the_one_that_steps_are_told_of_makes_the_epochs():
    base = autopipe.optimize(rows(), seconds=0)
    train, validation = (
        base.filter(lambda x, y: x[0] < ROWS // 2).batch(4),
        base.filter(lambda x, y: x[0] >= ROWS // 2).batch(4),
    )
    with PipelineMonitor() as monitor:
        for _ in range(3):
            for _ in train:
                monitor.step()
            list(validation)
    assert list(monitor._figures) == [1, 2, 3]
    assert monitor.profile.stretch.elements == 3 * ROWS // 2 // 4


def test_a_part_that_is_made_anew_for_each_epoch_is_the_same():
    base = autopipe.optimize(rows(), seconds=0)

    def made():
        return iter(base.filter(lambda x, y: x[0] >= 0).batch(4))

    with PipelineMonitor() as monitor:
        for _ in range(3):
            # The one before is still held while this one is made.
            iterator = made()
            for _ in iterator:
                monitor.step()
    assert list(monitor._figures) == [1, 2, 3]
    assert monitor.profile.stretch.elements == 3 * ROWS // 4
