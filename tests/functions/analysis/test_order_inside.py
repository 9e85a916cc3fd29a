import pytest
import tensorflow as tf

from autopipe.functions.analysis.order_inside import op_of_free_order, op_that_counts
from autopipe.pipeline.extract import extract

Dataset = tf.data.Dataset


def fn_of(make):
    return extract(Dataset.range(3).flat_map(make)).fn


@pytest.mark.parametrize(
    ("make", "free", "counts"),
    [
        (Dataset.range, None, None),
        (lambda x: Dataset.range(x).map(tf.abs, num_parallel_calls=2), None, None),
        (lambda x: Dataset.range(x).map(tf.abs, 2, deterministic=False).skip(1), "ParallelMapDatasetV2", "SkipDataset"),
        (lambda x: Dataset.range(x).flat_map(lambda y: Dataset.range(y).batch(2)), None, "BatchDatasetV2"),
    ],
    ids=["plain", "in order", "free", "nested"],
)
def test_what_a_function_does_with_order_is_seen(make, free, counts):
    fn = fn_of(make)
    assert (op_of_free_order(fn), op_that_counts(fn)) == (free, counts)


def test_groups_and_batches_of_other_sizes_count_too():
    def rebatched(x):
        return Dataset.range(x).batch(2).rebatch(3)

    def grouped(x):
        return Dataset.range(x).group_by_window(lambda y: y % 2, lambda _, window: window, window_size=2)

    for function in (rebatched, grouped):
        assert op_that_counts(extract(Dataset.range(3).flat_map(function)).fn)
