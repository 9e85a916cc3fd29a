import pytest
import tensorflow as tf

from autopipe.functions.csv_rows import has_a_line_for_each_row, parses_csv
from autopipe.pipeline.extract import extract

FILES = tf.data.Dataset.from_tensors("a.csv")


def rows(file, compression_type=""):
    return tf.data.experimental.CsvDataset(file, [tf.int32, tf.constant([0.5])], compression_type)


def in_a_branch(file):
    return tf.data.Dataset.from_tensors(file).flat_map(rows)


@pytest.mark.parametrize(
    ("make", "parses", "lines"),
    [
        (rows, True, True),
        (lambda file: rows(file).ignore_errors(), True, True),
        (lambda file: rows(file, "GZIP"), True, False),
        (lambda file: rows(file, tf.strings.substr(file, 0, 0)), True, False),
        (lambda file: rows(file).repeat(2), True, False),
        (lambda file: rows(file).concatenate(rows(file)), True, False),
        (in_a_branch, True, False),
        (tf.data.TextLineDataset, False, False),
    ],
    ids="plain errors gzip any repeated twice inside text".split(),
)
def test_what_a_function_reads_is_seen_in_its_graph(make, parses, lines):
    fn = extract(FILES.flat_map(make)).fn
    assert parses_csv(fn) is parses
    assert has_a_line_for_each_row(fn) is lines
