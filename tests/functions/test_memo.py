import gc
import weakref

import pytest
import tensorflow as tf

from autopipe.functions.batched.vectorize import NotVectorizableError, vectorize
from autopipe.functions.memo import RefusalError, remembered
from autopipe.pipeline.extract import function_of


class Tried:
    """What a question tried before it was refused."""


def test_a_question_is_answered_once_be_it_with_a_refusal():
    asked = []

    @remembered
    def halved(fn, number):
        asked.append(number)
        if number % 2:
            raise RefusalError(f"{number} is odd")
        return number // 2

    fn = function_of(tf.data.Dataset.range(3).map(lambda x: x))
    for _ in range(2):
        assert halved(fn, 4) == 2
        with pytest.raises(RefusalError, match="5 is odd"):
            halved(fn, 5)
    assert asked == [4, 5]


def test_another_error_is_no_answer():
    asked = []

    @remembered
    def broken(fn):
        asked.append(fn)
        raise ValueError("broken")

    fn = function_of(tf.data.Dataset.range(3).map(lambda x: x))
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            broken(fn)
    assert len(asked) == 2


def test_a_refusal_that_is_remembered_holds_nothing_of_what_was_tried():
    tried = []

    @remembered
    def refused(fn):
        mine = Tried()
        tried.append(weakref.ref(mine))
        raise RefusalError("never")

    fn = function_of(tf.data.Dataset.range(3).map(lambda x: x))
    for _ in range(2):
        with pytest.raises(RefusalError):
            refused(fn)
    gc.collect()
    assert [each() for each in tried] == [None]


def test_a_function_without_a_batched_form_is_traced_once_and_its_op_is_named_again():
    fn = function_of(tf.data.Dataset.from_tensor_slices(["x"]).map(lambda x: tf.io.decode_jpeg(x)[0, 0, 0]))
    refusals = []
    for _ in range(2):
        with pytest.raises(NotVectorizableError) as refused:
            vectorize(fn, None)
        refusals.append(refused.value)
    first, again = refusals
    assert (str(again), again.op_type) == (str(first), "DecodeJpeg")
    assert first.__cause__ is not None
    assert again.__cause__ is None
