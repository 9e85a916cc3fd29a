"""Functions of one element, or of parts of it side by side, as one."""

import pytest
import tensorflow as tf

from autopipe.functions.joined.beside import Side, beside
from autopipe.pipeline.extract import extract

NUMBERS = tf.data.Dataset.range(3)
SPEC = NUMBERS.element_spec


def functions(*written):
    return tuple(extract(NUMBERS.map(each)).fn for each in written)


def square(x):
    return tf.square(x)


def plus_one(x):
    return x + 1


def values(found, *numbers):
    return [int(each) for each in found.fn.concrete(*(tf.constant(x, tf.int64) for x in numbers))]


def test_each_runs_its_functions_one_after_the_other():
    one, other = functions(square, plus_one)
    sides = [Side((one, other), slice(None)), Side((other, one), slice(None)), Side((), slice(None))]
    found = beside(sides, [SPEC], SPEC, (SPEC, SPEC, SPEC))
    assert values(found, 3) == [10, 16, 3]
    assert found.fn.name == "square and plus_one"
    assert found.rounds_alike


def test_each_takes_its_own_tensors():
    one, other = functions(square, plus_one)
    found = beside([Side((one,), slice(0, 1)), Side((other,), slice(1, 2))], [SPEC, SPEC], (SPEC, SPEC), (SPEC, SPEC))
    assert values(found, 3, 5) == [9, 6]
    assert found.shared == ()


def test_what_all_do_with_the_same_is_done_once_and_named():
    one, again = functions(square, square)
    found = beside([Side((one,), slice(None)), Side((again,), slice(None))], [SPEC], SPEC, (SPEC, SPEC))
    assert found.shared[0].type == "Square"
    assert values(found, 4) == [16, 16]
    assert found.fn.name == "2 times square"


def test_sums_of_functions_that_follow_each_other_may_round_otherwise():
    floats = tf.data.Dataset.from_tensors(0.5)
    first = extract(floats.map(lambda x: x + 0.1)).fn
    then = extract(floats.map(lambda x: x + 0.2)).fn
    spec = floats.element_spec
    assert not beside([Side((first, then), slice(None))], [spec], spec, spec).rounds_alike
    assert beside([Side((first,), slice(None))], [spec], spec, spec).rounds_alike


@pytest.mark.parametrize(("otherwise", "times"), [(lambda: 0.5, 1), (lambda: tf.random.uniform([]), 2)])
def test_a_condition_of_one_function_is_shared_unless_a_branch_of_it_draws(otherwise, times):
    fn = extract(NUMBERS.map(lambda x: tf.cond(x > 5, lambda: 1.0, otherwise))).fn
    spec = fn.output_spec
    found = beside([Side((fn,), slice(None))] * 2, [SPEC], SPEC, (spec, spec)).fn
    assert sum(op.type in ("If", "StatelessIf") for op in found.concrete.graph.get_operations()) == times
    first, second = found.concrete(tf.constant(3, tf.int64))
    assert bool(first == second) is (times == 1)
