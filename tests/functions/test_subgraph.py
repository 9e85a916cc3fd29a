"""What only hands tensors on is seen through."""

import pytest
import tensorflow as tf

from autopipe.functions.subgraph import origin
from autopipe.pipeline.extract import function_of


def passed_on(x):
    return tf.identity_n([x, tf.identity(x * 2.0), tf.exp(x)])


@pytest.mark.parametrize(("place", "made_by"), [(0, "Placeholder"), (1, "Mul"), (2, "Exp")])
def test_a_tensor_that_is_passed_on_with_others_comes_from_what_made_it(place, made_by):
    fn = function_of(tf.data.Dataset.from_tensors(1.0).map(lambda x: tf.identity(passed_on(x)[place])))
    (given,) = fn.concrete.graph.outputs
    assert origin(given).op.type == made_by


def test_so_is_one_whose_gradient_its_author_wrote():
    (given,) = function_of(tf.data.Dataset.from_tensors(1.0).map(tf.nn.swish)).concrete.graph.outputs
    assert origin(given).op.type == "Mul"
