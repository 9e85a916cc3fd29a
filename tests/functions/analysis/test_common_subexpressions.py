"""What a function does twice it does once, unless it may come out differently."""

import numpy as np
import pytest
import tensorflow as tf

from autopipe.functions.analysis.common_subexpressions import computed_once
from autopipe.pipeline.extract import extract

Dataset = tf.data.Dataset
IMAGE = np.arange(48, dtype=np.float32).reshape(4, 4, 3)


def of_image(function):
    return extract(Dataset.from_tensors(IMAGE).map(function)).fn


def counted(fn, kind):
    return [op.type for op in fn.concrete.graph.get_operations()].count(kind)


def values(fn, *tensors):
    return [each.numpy() for each in fn.concrete(*map(tf.constant, tensors))]


def test_a_chain_of_equal_ops_runs_once():
    fn = of_image(lambda x: [tf.sqrt(tf.image.resize(x, (2, 2)) + 1.0) * factor for factor in (2.0, 3.0)])
    done = computed_once(fn)
    assert (counted(fn, "ResizeBilinear"), counted(done.fn, "ResizeBilinear")) == (2, 1)
    assert (counted(fn, "Sqrt"), counted(done.fn, "Sqrt")) == (2, 1)
    assert {"ResizeBilinear", "Sqrt"} <= {op.type for op in done.shared}
    assert done.rounds_alike
    np.testing.assert_array_equal(values(done.fn, IMAGE), values(fn, IMAGE))


def test_a_constant_that_was_made_outside_serves_for_its_like_inside():
    outside = tf.constant(3.0)
    fn = of_image(lambda x: (x + outside, x * tf.constant(3.0), x - outside))
    assert [op.type for op in computed_once(fn).shared] == ["Const"]
    for done, written in zip(values(computed_once(fn).fn, IMAGE), values(fn, IMAGE), strict=True):
        np.testing.assert_array_equal(done, written)


def test_a_function_without_such_ops_is_the_same_function():
    fn = of_image(lambda x: (tf.sqrt(x), tf.square(x), tf.reduce_sum(x, 0), tf.reduce_sum(x, 1)))
    assert computed_once(fn).fn is fn
    assert not computed_once(fn).shared


@pytest.mark.parametrize(
    ("draw", "kind"),
    [
        (lambda x: x + tf.random.uniform([]), "RandomUniform"),
        (lambda x: x + tf.random.uniform([], seed=5), "RandomUniform"),
        (lambda x: tf.numpy_function(lambda y: y, [x], tf.float32), "PyFunc"),
    ],
)
def test_what_may_come_out_differently_stays_as_often_as_it_is(draw, kind):
    fn = of_image(lambda x: (draw(tf.sqrt(x)), draw(tf.sqrt(x))))
    assert counted(computed_once(fn).fn, kind) == counted(fn, kind) == 2
    assert counted(computed_once(fn).fn, "Sqrt") == 1


def test_checks_that_wait_for_each_other_do_not_keep_equal_work_apart():
    def checked(x):
        tf.debugging.assert_greater(tf.reduce_sum(x), 0.0, "nothing there")
        tf.debugging.assert_all_finite(x, "no number")
        return tf.sqrt(x)

    fn = of_image(lambda x: (checked(x) + 1.0, checked(x) + 2.0))
    done = computed_once(fn).fn
    assert [counted(done, kind) for kind in ("CheckNumerics", "Sqrt")] == [1, 1]
    np.testing.assert_array_equal(values(done, IMAGE), values(fn, IMAGE))
    with pytest.raises(tf.errors.InvalidArgumentError, match="nothing there"):
        done.concrete(tf.constant(-IMAGE))


def test_a_variable_is_read_as_often_as_it_is():
    variable = tf.Variable(1.0)
    fn = of_image(lambda x: (x + variable, x - variable))
    assert counted(computed_once(fn).fn, "ReadVariableOp") == 2
    variable.assign(5.0)
    np.testing.assert_array_equal(values(computed_once(fn).fn, IMAGE), [IMAGE + 5, IMAGE - 5])


def test_a_check_is_made_once_and_still_fails():
    def checked(x):
        return tf.debugging.check_numerics(x, "no number") * 2.0

    fn = of_image(lambda x: (checked(x), checked(x) + 1.0))
    assert counted(computed_once(fn).fn, "CheckNumerics") == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="no number"):
        computed_once(fn).fn.concrete(tf.constant(np.full_like(IMAGE, np.nan)))


def test_sums_that_go_on_may_round_otherwise_once_they_are_shared():
    def summed(x, more):
        return x + 0.1 + 0.2 + more

    fn = of_image(lambda x: (summed(x, 0.3), summed(x, 0.4)))
    assert not computed_once(fn).rounds_alike
    np.testing.assert_allclose(values(computed_once(fn).fn, IMAGE), values(fn, IMAGE), rtol=1e-6)
