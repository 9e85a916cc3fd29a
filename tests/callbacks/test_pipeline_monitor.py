"""The monitor measures and changes nothing."""

import gc
import threading
import time
import weakref

import keras
import pytest
import tensorflow as tf

import autopipe
from autopipe.callbacks import PipelineMonitor
from autopipe.planning.costs import profiling
from autopipe.planning.costs.stages import model_of

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
        time.sleep(0.06)
        return value

    return tf.ensure_shape(tf.numpy_function(wait, [x], tf.float32), [4, 1])


@pytest.mark.timed
def test_a_slow_pipeline_stalls_the_epoch_and_a_slow_model_does_not():
    class SlowModel(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            time.sleep(0.06)

    batches = tf.data.Dataset.from_tensors(tf.ones([4, 1])).repeat(12)
    starved = fit(autopipe.optimize(batches.map(slow).map(lambda x: (x, x)), rules=()))
    fed = fit(autopipe.optimize(batches.map(lambda x: (x, x)), rules=()), [SlowModel()])
    assert min(starved[1:]) > 0.5
    assert max(fed[1:]) < 0.2


class SlowToTest(keras.Model):
    """Takes a second to evaluate, which is twice as long as an epoch of ``WAITING`` is trained on."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.compile("sgd", "mse")

    def call(self, x):
        return self.dense(x)

    def test_step(self, data):
        tf.py_function(lambda: time.sleep(1.0), [], [])
        return super().test_step(data)


WAITING = tf.data.Dataset.from_tensors(tf.ones([4, 1])).repeat(8).map(slow).map(lambda x: (x, x))
ONE = tf.data.Dataset.from_tensors((tf.ones([4, 1]), tf.ones([4, 1])))


class EvaluateInMidEpoch(keras.callbacks.Callback):
    def __init__(self, monitor):
        super().__init__()
        self.monitor = monitor

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            self.model.evaluate(ONE, verbose=0, callbacks=[self.monitor])


@pytest.mark.parametrize(
    ("endless", "validates"),
    [
        pytest.param(True, lambda monitor: {"validation_data": ONE}, id="after each epoch"),
        pytest.param(False, lambda monitor: {"validation_data": ONE, "validation_freq": 2}, id="after some"),
        pytest.param(True, lambda monitor: {"callbacks": [monitor, EvaluateInMidEpoch(monitor)]}, id="in mid-epoch"),
    ],
)
@pytest.mark.one_in(3)
@pytest.mark.timed
def test_figures_of_training_are_not_diluted_by_validation(endless, validates):
    monitor = PipelineMonitor()
    arguments = {"callbacks": [monitor], "steps_per_epoch": 8 if endless else None, **validates(monitor)}
    # What was made ahead while somebody else was read is not waited for.
    dataset = autopipe.optimize((WAITING.repeat() if endless else WAITING).prefetch(1), rules=())
    history = SlowToTest().fit(dataset, epochs=4, verbose=0, **arguments).history
    assert history["input_stall"][-1] > 0.5
    assert 0.0 < history["host_utilization"][-1] <= 1.0
    assert history["steps_per_second"][-1] > 8
    told = sum(8 / rate for rate in history["steps_per_second"])
    assert told - 0.5 < monitor.profile.stretch.seconds < told + 0.5


def test_without_rules_the_pipeline_runs_as_it_was_written():
    written = tf.data.Dataset.range(6).map(lambda x: x * 2).batch(2)
    dataset = autopipe.optimize(written, rules=())
    assert not dataset.explain().rewriting.steps
    assert [batch.tolist() for batch in dataset.as_numpy_iterator()] == [[0, 2], [4, 6], [8, 10]]


def trained(dataset, **arguments):
    monitor = PipelineMonitor()
    model().fit(dataset, epochs=3, verbose=0, callbacks=[monitor], **arguments)
    return monitor.profile


def heavy(x, size=300):
    return tf.reduce_sum(tf.linalg.matmul(*[tf.fill((size, size), x[0, 0])] * 2)) * 0.0 + x


def heavier(x):
    return heavy(x, size=900)


def test_several_steps_in_one_execution_are_several():
    monitor, trained_model = PipelineMonitor(), model()
    trained_model.compile("sgd", "mse", steps_per_execution=5)
    trained_model.fit(autopipe.optimize(PAIRS, rules=()), epochs=3, verbose=0, callbacks=[monitor])
    assert monitor.profile.stretch.elements == 90


PAIRS = tf.data.Dataset.from_tensors(tf.ones([4, 1])).repeat(30).map(heavy).map(lambda x: (x, x))


@pytest.mark.timed
def test_each_stage_of_the_training_is_told_with_its_line():
    profile = trained(autopipe.optimize(PAIRS, rules=()))
    costliest = max(profile.stages, key=lambda each: each.share)
    assert costliest.stage == "map(heavy)"
    assert costliest.line.startswith("test_pipeline_monitor.py:")
    assert profile.epochs == 3
    assert profile.stretch.elements == 90


@pytest.mark.timed
def test_a_shuffle_that_holds_the_whole_dataset_is_not_blamed_for_what_fills_it():
    # To fill it takes long enough to be looked at meanwhile.
    pairs = tf.data.Dataset.from_tensors(tf.ones([4, 1])).repeat(30).map(heavier).map(lambda x: (x, x))
    profile = trained(autopipe.optimize(pairs.shuffle(1_000), rules=()))
    assert max(profile.stages, key=lambda each: each.share).stage == "map(heavier)"


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_one_iterator_that_serves_all_epochs_is_looked_at_in_each():
    profile = trained(autopipe.optimize(PAIRS.repeat(), rules=()), steps_per_epoch=7)
    assert "map(heavy)" in {each.stage for each in profile.stages}
    assert profile.stretch.elements == 21


def test_validation_is_not_looked_at_and_a_full_cache_hides_what_is_before_it():
    validation = autopipe.optimize(PAIRS.take(2), rules=())
    profile = trained(autopipe.optimize(PAIRS.cache(), rules=()), validation_data=validation)
    assert [each.stage for each in profile.stages] == ["cache()"]
    assert profile.epochs == 3


def test_two_epochs_are_looked_at_and_others_as_time_allows_and_all_are_counted():
    monitor = PipelineMonitor()
    model().fit(autopipe.optimize(PAIRS, rules=()), epochs=6, verbose=0, callbacks=[monitor])
    assert [bool(epoch.looks) for epoch in monitor._epochs] == [True, True, False, False, False, False]
    assert monitor.profile.stretch.elements == 180
    assert monitor.profile.epochs == 6


def test_without_autotuning_there_is_no_profile_and_training_goes_on():
    options = tf.data.Options()
    options.autotune.enabled = False
    assert trained(autopipe.optimize(PAIRS.with_options(options), rules=())) is None


def test_of_iterators_that_are_gone_only_the_sums_are_kept():
    class Keeping(PipelineMonitor):
        kept = ()

        def on_epoch_end(self, epoch, logs=None):
            super().on_epoch_end(epoch, logs)
            self.kept = (*self.kept, len(self._readings))
            self.batches = self._taken().batches

    monitor = Keeping()
    batches = tf.data.Dataset.from_tensors((tf.ones([4, 1]), tf.ones([4, 1]))).repeat(5)
    model().fit(autopipe.optimize(batches, seconds=0), epochs=8, verbose=0, callbacks=[monitor])
    assert monitor.batches == 40
    assert max(monitor.kept) <= 3


def test_the_table_is_printed_when_it_was_asked_for(capsys):
    model().fit(autopipe.optimize(PAIRS, rules=()), verbose=0, callbacks=[PipelineMonitor(verbose=1)])
    assert "map(heavy)" in capsys.readouterr().out


def test_epochs_are_numbered_as_keras_does(capsys):
    monitor = PipelineMonitor(verbose=1)
    model().fit(autopipe.optimize(PAIRS, rules=()), initial_epoch=4, epochs=6, verbose=0, callbacks=[monitor])
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "%" in line and "map" not in line]
    assert rows[:2] == ["5", "6"]


@pytest.mark.filterwarnings("ignore:PipelineMonitor follows a dataset:UserWarning")
def test_nothing_is_printed_of_a_training_it_did_not_see(capsys):
    model().fit(PAIRS, verbose=0, callbacks=[PipelineMonitor(verbose=1)])
    assert capsys.readouterr().out == ""


def test_all_stages_are_told_where_somebody_changes_their_knobs_between_epochs():
    pairs = tf.data.Dataset.from_tensors(([[1.0]], [[2.0]])).repeat(40)
    dataset = autopipe.optimize(pairs.map(lambda x, y: (2 * x, y), 2).prefetch(2), rules=())

    class Retune(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            dataset.retune({"map[<lambda>].num_parallel_calls": 3 + epoch})

    monitor = PipelineMonitor()
    model().fit(dataset, epochs=2, verbose=0, callbacks=[monitor, Retune()])
    assert [each.stage for each in monitor.profile.stages][-2:] == ["map(<lambda>, calls=2)", "prefetch(2)"]
    assert monitor.profile.stages[-2].elements > 40


def test_an_iterator_that_is_swapped_between_looks_trains_on_and_what_was_seen_of_it_stays():
    data = tf.data.Dataset.from_tensors(([[1.0]], [[2.0]])).repeat(40).map(lambda x, y: (x, y), num_parallel_calls=2)
    dataset = autopipe.optimize(data, rules=())
    (knob,) = (name for name in dataset.knobs if name.endswith("num_parallel_calls"))

    class Swap(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch >= 10:
                dataset.retune({knob: 1 + batch % 2})

    monitor = PipelineMonitor()
    model().fit(dataset, epochs=2, verbose=0, callbacks=[monitor, Swap()])
    assert monitor.profile.stages[-1].elements >= 5


class Counting(PipelineMonitor):
    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        self.batches = self._taken().batches


@pytest.mark.one_in(2)
@pytest.mark.parametrize("last", [False, True], ids=["in mid-epoch", "at its end"])
def test_what_a_callback_reads_of_the_same_dataset_is_none_of_the_training(last):
    class Evaluate(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 10 and not last:
                self.model.evaluate(dataset, verbose=0)

        def on_epoch_end(self, epoch, logs=None):
            if last:
                self.model.evaluate(dataset, verbose=0)

    monitor, dataset = Counting(), autopipe.optimize(PAIRS, rules=())
    model().fit(dataset, epochs=3, verbose=0, callbacks=[Evaluate(), monitor])
    assert monitor.batches == 90


def test_what_a_callback_has_read_is_none_of_the_training_while_it_is_still_looked_at(monkeypatch):
    being_read = threading.Event()

    def look_until_read(iterator):
        while being_read.is_set() and threading.current_thread() is not threading.main_thread():
            time.sleep(0.001)
        return model_of(iterator)

    class Read(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            iterator = iter(dataset)
            being_read.set()
            time.sleep(0.1)
            for _ in iterator:
                pass
            threading.Timer(0.05, being_read.clear).start()

    monkeypatch.setattr(profiling, "model_of", look_until_read)
    monitor, dataset = Counting(), autopipe.optimize(PAIRS, rules=())
    model().fit(dataset, epochs=2, verbose=0, callbacks=[Read(), monitor])
    assert monitor.batches == 60


def test_of_a_loop_after_a_fit_each_step_is_one():
    monitor, trained_model = PipelineMonitor(), model()
    trained_model.compile("sgd", "mse", steps_per_execution=5)
    dataset = autopipe.optimize(PAIRS, rules=())
    trained_model.fit(dataset, verbose=0, callbacks=[monitor])
    with monitor:
        for _ in dataset:
            monitor.step()
    assert monitor.profile.stretch.elements == 30


def test_a_monitor_that_is_kept_does_not_keep_the_dataset():
    monitor, dataset = PipelineMonitor(), autopipe.optimize(PAIRS.cache(), rules=())
    model().fit(dataset, epochs=2, verbose=0, callbacks=[monitor])
    gone = weakref.ref(dataset)
    del dataset
    # Its last iterator is destroyed aside.
    for _ in range(200):
        gc.collect()
        if gone() is None:
            break
        time.sleep(0.05)
    assert gone() is None
    assert "cache()" in {each.stage for each in monitor.profile.stages}


def test_a_loop_that_reads_no_optimized_dataset_is_told_so_once():
    monitor = PipelineMonitor()

    def read(batches):
        with monitor:
            for _ in batches:
                monitor.step()

    with pytest.warns(UserWarning, match="this training reads none") as caught:
        read(PAIRS)
    assert sum("reads none" in str(each.message) for each in caught) == 1
    with pytest.raises(TypeError, match="not iterable"):
        read(None)


@pytest.mark.filterwarnings("ignore:Your input ran out of data:UserWarning")
def test_a_dataset_without_elements_is_told_as_what_it_is():
    empty = autopipe.optimize(PAIRS.filter(lambda x, y: tf.reduce_all(x > 1e9)), rules=(), seconds=0)
    monitor = PipelineMonitor()
    with pytest.warns(UserWarning, match="began to read gave no elements") as caught:
        model().fit(empty, epochs=2, verbose=0, callbacks=[monitor])
    assert not [each for each in caught if "reads none" in str(each.message)]
    with pytest.warns(UserWarning, match="began to read gave no elements"), monitor:
        assert not list(empty)


def test_a_step_outside_of_the_callback_is_said_once():
    monitor = PipelineMonitor()
    with pytest.warns(UserWarning, match=r"PipelineMonitor.step\(\) must be called within the callback's context"):
        monitor.step()
    monitor.step()
