"""What an author declares of Python code is found wherever TensorFlow keeps the code, and nowhere else."""

import functools

import pytest
import tensorflow as tf

import autopipe
from autopipe.errors import ArgumentError
from autopipe.functions.analysis.effects import effects
from autopipe.pipeline.extract import extract

Dataset = tf.data.Dataset
INTS = tf.TensorSpec((), tf.int64)


def counting(count):
    yield from range(count)


def same(value):
    return value


class Reader:
    def read(self, value):
        return value

    @autopipe.stateless
    def declared_read(self, value):
        return value


@autopipe.stateless
def declared(value):
    return value


@autopipe.stateless
def declared_counting(count):
    yield from range(count)


def counting_calls(function):
    calls = []

    @functools.wraps(function)
    def counted(value):
        calls.append(value)
        return function(value)

    return counted


def numpy_of(function, **arguments):
    return lambda x: tf.numpy_function(function, [x], tf.int64, **arguments)


def python_of(function):
    return lambda x: tf.py_function(function, [x], tf.int64)


def generated(function):
    return lambda x: Dataset.from_generator(function, output_signature=INTS, args=(x,))


class Loader:
    def load(self, value):
        return value


def both(x):
    return tf.numpy_function(declared, [x], tf.int64) + tf.numpy_function(same, [x], tf.int64)


DECLARED = {
    "a function": numpy_of(declared),
    "an eager function": python_of(declared),
    "a function of tensors of another form": lambda x: tf.py_function(
        declared, [tf.RaggedTensor.from_tensor([[x]])], INTS
    ),
    "a partial one": numpy_of(functools.partial(declared)),
    "a method": numpy_of(Reader().declared_read),
    "a method of an object": numpy_of(autopipe.stateless(Loader().load)),
    "to TensorFlow": numpy_of(same, stateful=False),
    "in a branch": lambda x: tf.cond(x > 1, lambda: numpy_of(declared)(x), lambda: x),
}
UNDECLARED = {
    "a function": numpy_of(same),
    "an eager function": python_of(same),
    "a partial one": numpy_of(functools.partial(same)),
    "a method": numpy_of(Reader().read),
    "one that calls a declared one": numpy_of(lambda value: declared(value)),
    "one of two": both,
    "a wrapper around a declared one": numpy_of(counting_calls(declared)),
    "an eager wrapper around a declared one": python_of(counting_calls(declared)),
    "one written in C": numpy_of(abs),
}


def found_in(function):
    return effects(extract(Dataset.range(3).map(function)).fn)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", DECLARED.values(), ids=DECLARED)
def test_declared_code_is_steady(function):
    found = found_in(function)
    assert found.steady
    assert not found.pure
    assert found.unseen
    assert found.runs_python


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", UNDECLARED.values(), ids=UNDECLARED)
def test_other_code_is_not(function):
    found = found_in(function)
    assert found.python
    assert not found.steady
    assert not found.unseen


@pytest.mark.parametrize("function", [counting, declared_counting])
def test_a_generator_is_what_its_function_is_declared_to_be(function):
    alone = extract(Dataset.from_generator(function, output_signature=INTS, args=(3,))).fn
    made = extract(Dataset.range(3).flat_map(generated(function))).fn
    for fn in (alone, made):
        assert effects(fn).steady is (function is declared_counting)


def test_a_declared_function_is_the_same_function():
    assert autopipe.stateless(same_again := lambda value: value) is same_again


def test_what_cannot_be_marked_is_refused_with_a_remedy():
    with pytest.raises(ArgumentError, match="Wrap it in a function of your own"):
        autopipe.stateless(abs)
