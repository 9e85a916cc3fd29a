import pytest
import tensorflow as tf

from autopipe.functions.analysis.csv_rows import has_a_line_for_each_row
from autopipe.pipeline.extract import extract

FILES = tf.data.Dataset.from_tensors("a.csv")


def rows(file, compression_type=""):
    return tf.data.experimental.CsvDataset(file, [tf.int32, tf.constant([0.5])], compression_type)


def in_a_branch(file):
    return tf.data.Dataset.from_tensors(file).flat_map(rows)


@pytest.mark.parametrize(
    ("make", "lines"),
    [
        (rows, True),
        (lambda file: rows(file).ignore_errors(), True),
        (lambda file: rows(file, "GZIP"), False),
        (lambda file: rows(file, tf.strings.substr(file, 0, 0)), False),
        (lambda file: rows(file).repeat(2), False),
        (lambda file: rows(file).concatenate(rows(file)), False),
        (in_a_branch, False),
        (tf.data.TextLineDataset, False),
    ],
    ids="plain errors gzip any repeated twice inside text".split(),
)
def test_what_a_function_reads_is_seen_in_its_graph(make, lines):
    fn = extract(FILES.flat_map(make)).fn
    assert has_a_line_for_each_row(fn) is lines
