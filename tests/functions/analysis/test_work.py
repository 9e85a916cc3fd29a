"""What a function works is seen, also in the datasets that it makes."""

import pytest
import tensorflow as tf

from autopipe.functions.analysis.work import inner_work
from autopipe.pipeline.extract import extract

Dataset = tf.data.Dataset
NAMES = Dataset.from_tensors("a")


def rows(name):
    return tf.data.experimental.CsvDataset(name, [tf.int32])


def lines(name):
    return tf.data.TextLineDataset(name)


def either(name, line):
    return tf.cond(name == "b", lambda: tf.strings.upper(line), lambda: line)


@pytest.mark.parametrize(
    ("opening", "work"),
    [
        (lines, ""),
        (lambda name: lines(name).skip(1).batch(2).prefetch(1), ""),
        (lambda name: tf.data.TFRecordDataset(name, "GZIP").map(lambda record: (record, name)), ""),
        (rows, "CSVDatasetV2"),
        (lambda name: Dataset.from_tensors(name).flat_map(rows), "CSVDatasetV2"),
        (lambda name: lines(name).map(tf.strings.upper), "StringUpper"),
        (lambda name: lines(name).filter(lambda line: tf.strings.length(line) > 1), "StringLength"),
        (lambda name: Dataset.from_tensors(name).interleave(lambda n: lines(n).map(tf.strings.lower)), "StringLower"),
        (lambda name: Dataset.from_tensor_slices(tf.strings.split(name)), "StringSplitV2"),
        (lambda name: lines(name).map(lambda line: either(name, line)), "StatelessIf"),
    ],
    ids="lines moves tells csv csv_inside map filter nested opening branch".split(),
)
def test_ops_that_do_more_than_moving_data_are_named(opening, work):
    found = inner_work(extract(NAMES.flat_map(opening)).fn)
    assert found.startswith(work)
    assert bool(found) is bool(work)
