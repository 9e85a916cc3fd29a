"""What takes the elements of a pipeline: how many steps it makes, and how many if input cost nothing."""

import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from autopipe.errors import ArgumentError, DatasetError
from autopipe.planning.costs.consumer import ModelSteps, StandIn, measure_pace

pytestmark = pytest.mark.timed

Dataset = tf.data.Dataset
ROWS = Dataset.from_tensors((np.ones((4, 3), "float32"), np.ones((4, 1), "float32")))
LENGTHS = {"one": ROWS, "few": ROWS.repeat(5), "endless": ROWS.repeat()}


@pytest.fixture(scope="module")
def model():
    made = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made


def slow(*parts):
    def wait():
        time.sleep(0.03)
        return np.float32(0)

    return parts[0] + tf.ensure_shape(tf.numpy_function(wait, [], tf.float32), []), parts[1]


@pytest.mark.parametrize("given", [3, None, keras.Sequential([keras.layers.Dense(1)])])
def test_what_is_no_compiled_model_is_refused(given):
    with pytest.raises(ArgumentError, match=r"model must be a compiled Keras model, but got .* Compile it first"):
        ModelSteps(given)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_stand_in_makes_steps_for_as_long_as_it_is_told(length):
    began = time.perf_counter()
    rate = StandIn(0.01).steps_per_second(LENGTHS[length], 0.3)
    assert 25 < rate <= 100
    assert time.perf_counter() - began < 3


@pytest.mark.parametrize("length", LENGTHS)
def test_a_model_makes_steps_for_as_long_as_it_is_told(model, length):
    began = time.perf_counter()
    rate = ModelSteps(model).steps_per_second(LENGTHS[length], 0.3)
    assert rate > 10
    assert time.perf_counter() - began < 20


def starting_slowly():
    """Forty steps in no time, after a start that takes 0.12 s."""
    late = ROWS.map(slow).map(slow).map(slow).map(slow)
    return late.interleave(lambda *parts: Dataset.from_tensors(parts).repeat(40))


def test_the_start_of_an_epoch_counts_only_where_epochs_are_read_as_wholes(model):
    ModelSteps(model).steps_per_second(ROWS, 0.05)
    whole = [
        each.steps_per_second(starting_slowly(), 0.02, whole_epochs=True) for each in (StandIn(0), ModelSteps(model))
    ]
    assert max(whole) < 40 / 0.12
    assert StandIn(0).steps_per_second(starting_slowly(), 0.002) > 1.5 * 40 / 0.12


def test_a_turn_of_whole_epochs_ends_with_an_epoch_or_when_it_is_very_late():
    assert StandIn(0.01).steps_per_second(ROWS.repeat(30), 0.05, whole_epochs=True) < 100
    began = time.perf_counter()
    StandIn(0.01).steps_per_second(LENGTHS["endless"], 0.01, whole_epochs=True)
    assert 0.3 < time.perf_counter() - began < 1.5


def test_steps_are_the_models_own():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile("sgd", "mse")
    ModelSteps(model).steps_per_second(ROWS, 0.2)
    assert np.abs(model.layers[0].kernel.numpy()).min() > 0
    assert int(model.optimizer.iterations) > 2


def test_several_steps_in_one_execution_are_several():
    class Noting(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x):
            return self.dense(x)

    model = Noting()
    model.compile("sgd", "mse", steps_per_execution=8)
    began = time.perf_counter()
    rate = ModelSteps(model).steps_per_second(ROWS.repeat(), 0.5)
    # All steps since tracing began are more than those counted, and in no more time than it took.
    assert int(model.optimizer.iterations) >= 0.5 * rate
    assert rate > int(model.optimizer.iterations) / (time.perf_counter() - began) / 2


@pytest.mark.parametrize("whole_epochs", [False, True], ids=["steps", "whole epochs"])
def test_the_end_is_told_once_and_nothing_before(whole_epochs):
    """With JAX, each time costs as much as a step."""
    told = []

    class Telling(keras.Sequential):
        def __setattr__(self, name, value):
            if name == "stop_training":
                told.append(value)
            super().__setattr__(name, value)

    model = Telling([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    told.clear()
    assert ModelSteps(model).steps_per_second(ROWS.repeat(20), 0.2, whole_epochs=whole_epochs) > 10
    begun, *ended = told
    assert begun is False
    assert set(ended) == {True}
    assert len(ended) <= 2


def test_an_exception_of_the_model_comes_out_as_it_is():
    class BrokenLossError(Exception):
        pass

    def loss(true, predicted):
        raise BrokenLossError("no such loss")

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", loss)
    with pytest.raises(BrokenLossError, match="no such loss"):
        ModelSteps(model).steps_per_second(ROWS, 0.2)


def test_an_exception_of_the_pipeline_comes_out_as_it_is(model):
    broken = ROWS.map(lambda x, y: (tf.debugging.check_numerics(x / 0, "bad"), y))
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
        StandIn(0.0).steps_per_second(broken, 0.2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
        ModelSteps(model).steps_per_second(broken, 0.2)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_slow_pipeline_is_waited_for(length):
    pace = measure_pace(StandIn(0.005), LENGTHS[length].map(slow), 0.8)
    assert pace.free_rate > 2 * pace.rate


def test_a_fast_pipeline_is_not():
    pace = measure_pace(StandIn(0.02), LENGTHS["endless"].prefetch(2), 0.8)
    assert pace.free_rate < 2 * pace.rate


def test_a_model_waits_for_a_slow_pipeline(model):
    pace = measure_pace(ModelSteps(model), LENGTHS["endless"].map(slow), 0.6)
    assert pace.free_rate > 2 * pace.rate


def once():
    """Return a dataset of one generator, which is used up by who reads it first."""
    numbers = iter(range(40))
    return Dataset.from_generator(lambda: numbers, output_signature=tf.TensorSpec((), tf.int64))


@pytest.mark.parametrize("whole_epochs", [False, True])
def test_what_gives_its_elements_only_once_is_no_reason_to_wait_for_ever(model, whole_epochs):
    columns = once().map(lambda x: (tf.fill((1, 3), tf.cast(x, tf.float32)), tf.ones((1, 1))))
    for consumer, dataset in ((StandIn(0.001), once()), (ModelSteps(model), columns)):
        with pytest.raises(DatasetError, match="pass from_generator.. a function"):
            consumer.steps_per_second(dataset, 30.0, whole_epochs=whole_epochs)


def test_without_elements_there_are_no_steps():
    with pytest.raises(DatasetError, match="must have elements"):
        measure_pace(StandIn(0.01), Dataset.range(9).filter(lambda x: x < 0), 0.2)
