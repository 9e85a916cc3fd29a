"""Elements that another thread takes, or that two tuners follow, are seen once, and nobody is slowed down."""

import queue
import threading
import time

import keras
import pytest
from recording import ROWS, WHOLE, Recorder, fit_until_a_trial_ended, identity, rows

import autopipe
from autopipe.callbacks import PipelineMonitor, PipelineTuner

pytestmark = [
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning"),
    pytest.mark.filterwarnings("ignore:GPU utilization:autopipe.telemetry.TelemetryWarning"),
]
BATCH = 4


def dataset():
    return autopipe.optimize(rows().shuffle(20).map(identity).batch(BATCH), seconds=0)


def in_background(data):
    """Yield the elements that another thread takes, as who copies them to a device does."""
    taken = queue.Queue(2)

    def take():
        for element in data:
            taken.put(element)
        taken.put(None)

    threading.Thread(target=take, daemon=True).start()
    while (element := taken.get()) is not None:
        yield element


def test_a_loop_over_what_another_thread_takes_is_tuned_from_epoch_to_epoch():
    data, tuner = dataset(), PipelineTuner(trials=3, window_seconds=0.01, objective="rate", most_loss=1e9, verbose=0)
    epochs, tried = [], set()
    with tuner:
        for _ in range(40):
            seen = []
            for x, _ in in_background(data):
                seen += [int(each) for each in x[:, 0]]
                time.sleep(0.001)
                tuner.step()
            epochs.append(sorted(seen))
            tried.add(tuple(tuner._reading.knobs.values()))
    assert epochs == [WHOLE] * 40
    assert tuner.search.trials
    assert len(tried) > 1


def test_who_reads_the_same_dataset_in_another_thread_is_neither_followed_nor_disturbed():
    data, monitor, seen = dataset(), PipelineMonitor(), []

    def read():
        seen.extend(sorted(int(each) for x, _ in data for each in x[:, 0]))

    class ReadBeside(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 3:
                thread = threading.Thread(target=read)
                thread.start()
                thread.join()

    model = Recorder()
    model.fit(data, epochs=2, verbose=0, callbacks=[monitor, ReadBeside()])
    assert model.sorted_epochs == [WHOLE] * 2
    assert seen == WHOLE * 2
    assert monitor.profile.stretch.elements == 2 * ROWS // BATCH


def test_two_trainings_in_two_threads_are_each_followed_by_their_own_callback():
    here, there = PipelineMonitor(), PipelineMonitor()
    others = autopipe.optimize(rows().map(identity).batch(2 * BATCH), seconds=0)

    reads, may_go_on = threading.Event(), threading.Event()

    class Halfway(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            reads.set()
            assert may_go_on.wait(60)

    def train():
        Recorder().fit(others, epochs=1, verbose=0, callbacks=[there, Halfway()])

    thread = threading.Thread(target=train)

    class TrainBeside(keras.callbacks.Callback):
        """Has another training begin before the first iterator of this one is made."""

        def on_epoch_begin(self, epoch, logs=None):
            thread.start()
            assert reads.wait(60)

    model = Recorder()
    history = model.fit(dataset(), epochs=1, verbose=0, callbacks=[here, TrainBeside()]).history
    may_go_on.set()
    thread.join()
    assert model.sorted_epochs == [WHOLE]
    assert "input_stall" in history
    shuffled = [any(each.stage == "shuffle(20)" for each in monitor.profile.stages) for monitor in (here, there)]
    assert shuffled == [True, False]


def test_of_two_tuners_of_one_training_the_second_warns_and_leaves_it_to_the_first():
    data, model = dataset(), Recorder()
    first, second = (
        PipelineTuner(trials=2, window_seconds=0.005, objective="rate", most_loss=1e9, verbose=0) for _ in range(2)
    )
    with pytest.warns(UserWarning, match="tuned by one PipelineTuner at a time") as told:
        epochs = fit_until_a_trial_ended(model, data, first, second)
    assert sum("tuned by one" in str(each.message) for each in told) == 1
    assert model.sorted_epochs == [WHOLE] * epochs
    assert first.search.trials
    assert second.search is None
    # It may tune what the first does not follow any more.
    fit_until_a_trial_ended(model, data, second)
    assert second.search.trials
