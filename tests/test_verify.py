"""Verifying finds what a wrong rewrite would do to the elements."""

import numpy as np
import pytest
import tensorflow as tf

from autopipe.rules import Keeps
from autopipe.verify import compare

Dataset = tf.data.Dataset
TEN = Dataset.range(10)

WRONG = {
    "lost": (TEN.skip(1), {*Keeps}),
    "repeated": (TEN.concatenate(Dataset.range(1)), {*Keeps}),
    "another type": (TEN.map(lambda x: tf.cast(x, tf.int32)), {*Keeps}),
    "changed": (TEN.map(lambda x: x + tf.cast(x == 3, tf.int64)), {Keeps.SEQUENCE, Keeps.ELEMENTS}),
    "other order": (TEN.shuffle(10, seed=1), {Keeps.SEQUENCE}),
    "nothing": (TEN.prefetch(2), set()),
}


@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize("name", WRONG)
def test_finds_exactly_what_the_promise_forbids(name, keeps):
    other, forbidden = WRONG[name]
    assert (compare(TEN, other, keeps) is not None) == (keeps in forbidden)


def test_rounding_breaks_the_sequence_and_not_the_elements():
    thirds = Dataset.from_tensor_slices(np.arange(5, dtype="float32") / 3)
    nearly = thirds.map(lambda x: x + 1e-7)
    assert compare(thirds, nearly, Keeps.SEQUENCE) == "epoch 0: element 0 differs"
    assert compare(thirds, nearly, Keeps.ELEMENTS) is None


def test_strings_ragged_and_sparse_elements_are_compared_by_value():
    for make in (
        lambda shift: TEN.map(lambda x: tf.strings.as_string(x + shift)),
        lambda shift: TEN.map(lambda x: tf.RaggedTensor.from_row_lengths(tf.range(x) + shift, [x])),
        lambda shift: TEN.map(lambda x: tf.SparseTensor([[0]], [x + shift], [3])),
    ):
        assert compare(make(0), make(0), Keeps.SEQUENCE) is None
        assert compare(make(0), make(1), Keeps.ELEMENTS) is not None
