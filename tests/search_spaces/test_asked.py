"""What a space says is checked before a search begins: it may be a function of the user's."""

import keras
import pytest
import tensorflow as tf
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

import autopipe
from autopipe.errors import ArgumentError, AutopipeError
from autopipe.pipeline.knobs import Knob
from autopipe.planning.memory.machine import Machine
from autopipe.search_spaces import ask
from autopipe.tuning.offline.tuning import tune

SIZE = Knob("prefetch.buffer_size", "buffer_size", 2, most=64)


def asked(space):
    return ask(space, [SIZE], Machine.here())


@pytest.mark.parametrize("distribution", [CategoricalDistribution((-1, 2, 64)), IntDistribution(1, 64)])
def test_what_a_knob_can_be_is_searched(distribution):
    assert asked(lambda knobs, machine: {SIZE.name: distribution}) == {SIZE.name: distribution}


WRONG = {
    "no arguments": (lambda: 1, "must be a function of the knobs and the machine"),
    "no signature": (dict, "must be a function of the knobs and the machine"),
    "other arguments": (lambda knobs, machine, more: {}, "must be a function of the knobs and the machine"),
    "no mapping": (lambda knobs, machine: [SIZE.name], "by the name of each knob, but gave .'prefetch.buffer_size'."),
    "another name": (
        lambda knobs, machine: {"prefetch": IntDistribution(1, 2)},
        "gave one for 'prefetch'. The knobs: prefetch.buffer_size.",
    ),
    "no distribution": (lambda knobs, machine: {SIZE.name: [1, 2]}, "gave .1, 2. for 'prefetch.buffer_size'"),
    "no whole numbers": (lambda knobs, machine: {SIZE.name: FloatDistribution(1, 2)}, "gave FloatDistribution"),
    "too large": (lambda knobs, machine: {SIZE.name: IntDistribution(1, 65)}, "<= 64, .* but got 65"),
    "no number": (lambda knobs, machine: {SIZE.name: CategoricalDistribution((1, "2"))}, "but got '2'"),
}


@pytest.mark.parametrize(("space", "said"), WRONG.values(), ids=WRONG)
def test_what_no_search_can_try_is_refused(space, said):
    with pytest.raises(AutopipeError, match=said):
        asked(space)


def test_a_wrong_space_is_told_before_training_and_before_a_search():
    dataset = autopipe.optimize(tf.data.Dataset.range(8).map(lambda x: (x, x)).batch(2).prefetch(2), seconds=0)
    with pytest.raises(ArgumentError, match="must be a function of the knobs"):
        tune(dataset, space=lambda: 1)
    tuner = autopipe.callbacks.PipelineTuner(space=lambda: 1)
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile(loss="mse")
    with pytest.raises(ArgumentError, match="must be a function of the knobs"):
        model.fit(dataset, callbacks=[tuner], shuffle=False, verbose=0)
