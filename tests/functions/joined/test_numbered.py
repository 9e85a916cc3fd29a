"""Functions of elements with numbers do with the elements what they did, and the numbers tell elements apart."""

import numpy as np
import pytest
import tensorflow as tf

from autopipe.functions.joined.numbered import (
    ELEMENTS_OF_FILE,
    behind_number,
    numbering_elements,
    opens_one_file,
    reads_in_order,
)
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract, function_of

Dataset = tf.data.Dataset
NUMBERS = Dataset.range(6)
KINDS = {
    "one tensor": NUMBERS,
    "two": Dataset.zip((NUMBERS, NUMBERS.map(tf.strings.as_string))),
    "named, nested": NUMBERS.map(lambda x: {"b": (x, -x), "a": {"c": tf.fill([2, 3], x)}}),
    "ragged": NUMBERS.map(lambda x: (tf.RaggedTensor.from_row_lengths(tf.range(x), [x]), x)),
}


def flat(element):
    return [np.asarray(each).tolist() for each in tf.nest.flatten(element, expand_composites=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_filter_lets_the_same_elements_pass(kind):
    plain = extract(KINDS[kind].filter(lambda *element: True))
    numbered = ir.Filter(input=extract(KINDS[kind].enumerate()), predicate=behind_number(plain.predicate))
    expected = [flat(element) for element in KINDS[kind]]
    assert [flat(element) for _, element in build(numbered)] == expected
    assert [int(number) for number, _ in build(numbered)] == list(range(len(expected)))


def test_a_filter_looks_at_the_element_and_not_at_its_number():
    odd = extract(NUMBERS.filter(lambda x: x % 2 == 1)).predicate
    numbered = ir.Filter(input=extract(NUMBERS.enumerate(start=1)), predicate=behind_number(odd))
    assert [(int(number), int(x)) for number, x in build(numbered)] == [(2, 1), (4, 3), (6, 5)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cycle", [1, 2])
def test_what_is_opened_gives_the_same_elements_with_numbers_of_their_own(kind, cycle):
    opened = NUMBERS.take(3).interleave(lambda x: KINDS[kind].skip(x), cycle_length=cycle)
    node = extract(opened)
    names = extract(NUMBERS.take(3).enumerate())
    numbered = build(ir.Interleave(input=names, fn=numbering_elements(node.fn), cycle_length=cycle, block_length=1))
    assert numbered.element_spec == (tf.TensorSpec((), tf.int64), opened.element_spec)
    pairs = list(numbered)
    assert [flat(element) for _, element in pairs] == [flat(element) for element in opened]
    places = sorted(divmod(int(number), ELEMENTS_OF_FILE) for number, _ in pairs)
    assert places == [(file, place) for file in range(3) for place in range(6 - file)]


@pytest.mark.parametrize(
    ("opening", "in_order"),
    [
        (Dataset.range, True),
        (lambda x: Dataset.range(x).skip(1).take(2).repeat(2).shard(2, 0), True),
        (lambda x: tf.data.TFRecordDataset(tf.strings.as_string(x)), True),
        (lambda x: Dataset.range(x).shuffle(2), False),
        (lambda x: Dataset.range(x).map(lambda y: y + 1, num_parallel_calls=2), False),
        (lambda x: Dataset.range(x + tf.random.uniform([], 0, 5, tf.int64)), False),
    ],
)
def test_what_is_opened_must_give_one_element_after_the_other(opening, in_order):
    assert reads_in_order(function_of(NUMBERS.flat_map(opening))) is in_order


TWO_NAMES = Dataset.from_tensor_slices(["a", "b"])
ONE = {
    "records": tf.data.TFRecordDataset,
    "a list of one": lambda name: tf.data.TFRecordDataset([name]),
    "lines but the first": lambda name: tf.data.TextLineDataset(name).skip(1),
    "of fixed length": lambda name: tf.data.FixedLengthRecordDataset(name, 4),
    "in a folder": lambda name: tf.data.TextLineDataset("folder/" + name),
    "csv": lambda name: tf.data.experimental.CsvDataset(name, [tf.int32]),
    "read whole": lambda name: Dataset.from_tensors(tf.io.read_file(name)),
    "read whole and cut": lambda name: Dataset.from_tensor_slices(tf.strings.split(tf.io.read_file(name), "\n")),
    "the same twice": lambda name: tf.data.TextLineDataset(name).take(3).concatenate(tf.data.TextLineDataset(name)),
    "none": lambda name: Dataset.from_tensors(name),
}
SEVERAL = {
    "a list of two": lambda name: tf.data.TextLineDataset([name, name + "x"]),
    "one after the other": lambda name: tf.data.TFRecordDataset(name + "/a").concatenate(
        tf.data.TFRecordDataset(name + "/b")
    ),
    "of each number": lambda name: Dataset.range(2).flat_map(
        lambda number: tf.data.TextLineDataset(name + tf.strings.as_string(number))
    ),
    "two of each name": lambda name: Dataset.from_tensor_slices([name]).flat_map(
        lambda each: tf.data.TextLineDataset([each, each + "x"])
    ),
    "read for each": lambda name: Dataset.from_tensor_slices([name, name + "x"]).map(tf.io.read_file),
}


@pytest.mark.parametrize("name", ONE)
def test_one_file_is_read_for_each_element(name):
    assert opens_one_file(function_of(TWO_NAMES.flat_map(ONE[name])))


@pytest.mark.parametrize("name", SEVERAL)
def test_several_files_are_read_for_an_element(name):
    assert not opens_one_file(function_of(TWO_NAMES.flat_map(SEVERAL[name])))
