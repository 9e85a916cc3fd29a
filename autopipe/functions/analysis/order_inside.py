"""The order of elements in the datasets that a function makes, and whether they come to an end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import with_called

__all__ = ["op_of_free_order", "op_that_an_option_frees", "op_that_counts", "op_that_ignores", "op_without_end"]

_OF_DATASETS = ("Dataset", "DatasetV2", "DatasetV3", "DatasetV4")
# Datasets whose elements depend on what came before.
_COUNTING = frozenset(
    "BatchDatasetV2 DatasetToSingleElement GroupByWindowDataset PaddedBatchDatasetV2 ParallelBatchDataset "
    "RebatchDatasetV2 ReduceDataset ScanDataset ShardDataset SkipDataset TakeDataset TakeWhileDataset UniqueDataset "
    "WindowDataset ZipDataset".split()
)

# Datasets that end when their inputs do; for others that is unknown.
_ENDING = _COUNTING | frozenset(
    "AssertCardinalityDataset BatchDataset CSVDataset CSVDatasetV2 CacheDataset CacheDatasetV2 ConcatenateDataset "
    "FilterDataset FixedLengthRecordDataset FixedLengthRecordDatasetV2 FlatMapDataset IgnoreErrorsDataset "
    "InterleaveDataset MapDataset OptionsDataset ParallelInterleaveDatasetV2 ParallelInterleaveDatasetV3 "
    "ParallelInterleaveDatasetV4 ParallelMapDataset ParallelMapDatasetV2 PrefetchDataset RangeDataset ShuffleDataset "
    "ShuffleDatasetV2 ShuffleDatasetV3 TFRecordDataset TFRecordDatasetV2 TensorDataset TensorSliceDataset "
    "TextLineDataset UnbatchDataset".split()
)


@remembered
def op_without_end(fn: Function) -> str | None:
    """Return a dataset op of a function that may be endless; ``None`` if there is none.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> numbers = tf.data.Dataset.range(3)
    >>> again = lambda x: tf.data.Dataset.range(x).repeat()
    >>> [op_without_end(function_of(numbers.flat_map(opened))) for opened in (tf.data.Dataset.range, again)]
    [None, 'RepeatDataset']
    """
    return _first(fn, lambda op: op.op.endswith(_OF_DATASETS) and op.op not in _ENDING)


@remembered
def op_of_free_order(fn: Function) -> str | None:
    """Return a dataset op of a function that passes on elements as they are ready; ``None`` if there is none.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> rows = lambda x: tf.data.Dataset.range(x).map(tf.abs, num_parallel_calls=2, deterministic=False)
    >>> op_of_free_order(function_of(tf.data.Dataset.range(3).flat_map(rows)))
    'ParallelMapDatasetV2'
    """
    return _first(fn, lambda op: op.attr["deterministic"].s == b"false")


@remembered
def op_that_an_option_frees(fn: Function) -> str | None:
    """Return a dataset op of a function that passes on elements as they are ready if an option says so.

    Such an option also affects the datasets that a function makes.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> rows = lambda x: tf.data.Dataset.range(x).map(tf.abs, num_parallel_calls=2)
    >>> op_that_an_option_frees(function_of(tf.data.Dataset.range(3).flat_map(rows)))
    'ParallelMapDatasetV2'
    """
    return _first(fn, lambda op: op.attr["deterministic"].s == b"default")


@remembered
def op_that_counts(fn: Function) -> str | None:
    """Return a dataset op of a function that depends on the order of elements; ``None`` if there is none.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> op_that_counts(function_of(tf.data.Dataset.range(3).flat_map(lambda x: tf.data.Dataset.range(x).take(2))))
    'TakeDataset'
    """
    return _first(fn, lambda op: op.op in _COUNTING)


@remembered
def op_that_ignores(fn: Function) -> str | None:
    """Return a dataset op of a function that leaves out elements that fail; ``None`` if there is none.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import function_of
    >>> opened = lambda x: tf.data.Dataset.range(x).ignore_errors()
    >>> op_that_ignores(function_of(tf.data.Dataset.range(3).flat_map(opened)))
    'IgnoreErrorsDataset'
    """
    return _first(fn, lambda op: "IgnoreErrors" in op.op)


def _first(fn: Function, is_sought: Callable[[Any], bool]) -> str | None:
    ops = with_called(fn.concrete.graph.as_graph_def())
    return next((str(op.op) for op in ops if is_sought(op)), None)
