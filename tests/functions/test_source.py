"""The line of the user's file is found for an op, also where it was copied or runs inside a branch."""

import re

import keras
import tensorflow as tf

from autopipe.functions.analysis.effects import described, ops_with_effects
from autopipe.functions.parts.cut import split
from autopipe.functions.source import written_at
from autopipe.pipeline.extract import function_of

FLIP = keras.layers.RandomFlip("horizontal", seed=1)
HERE = "test_source.py:"
ONE = tf.data.Dataset.from_tensors([[[1.0], [2.0]]])


def line_of(text):
    with open(__file__) as lines:
        return next(number for number, line in enumerate(lines, 1) if text in line)


def branching(x):
    if tf.reduce_sum(x) > 0:
        x += tf.random.uniform(())  # the branch
    return x


def with_layer(x):
    return FLIP(x)  # the layer


def test_an_op_is_named_with_the_innermost_line_that_is_the_users():
    for function, text in ((branching, "# the " + "branch"), (with_layer, "# the " + "layer")):
        fn = function_of(ONE.map(function))
        places = {described(fn.concrete.graph, op) for op in ops_with_effects(fn)}
        assert places
        assert all(place.endswith(f" ({HERE}{line_of(text)})") for place in places), places


def test_a_function_of_tensorflow_itself_is_placed_where_the_user_named_it():
    dataset = ONE.map(tf.image.random_flip_left_right)  # the map
    fn = function_of(dataset)
    (drawing,) = ops_with_effects(fn)
    assert described(fn.concrete.graph, drawing) == f"RandomUniform ({HERE}{line_of('# the ' + 'map')})"


def test_a_copied_op_keeps_its_line():
    fn = function_of(ONE.map(lambda x: tf.sin(x) * 2.0))
    sine = next(op for op in fn.concrete.graph.get_operations() if op.type == "Sin")
    for part in split(fn, [sine.outputs[0]]):
        work = [op for op in part.concrete.graph.get_operations() if op.type in {"Sin", "Mul"}]
        assert [written_at(op) for op in work] == [written_at(sine)] * len(work)
        assert re.match(HERE + r"\d+", written_at(sine))
