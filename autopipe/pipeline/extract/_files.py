"""Readers of files."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autopipe.pipeline import ir
from autopipe.pipeline.extract._reading import Reader, function_from, node_of, scalar

__all__ = ["FILES"]

# The attribute with a dataset of file names, for a reader that has them as a tensor.
_NAMES = "_autopipe_names"
_CSV_ARGUMENTS = "buffer_size header field_delim use_quote_delim na_value select_cols exclude_cols".split()


def _tfrecord(ds: Any) -> ir.Node:
    return _files(ds, "tfrecord", num_parallel_reads=scalar(ds._num_parallel_reads))


def _text_lines(ds: Any) -> ir.Node:
    return _files(ds, "text", num_parallel_reads=_parallel_reads(ds._impl))


def _fixed_length(ds: Any) -> ir.Node:
    sizes = (ds._header_bytes, ds._record_bytes, ds._footer_bytes)
    return _files(
        ds,
        "fixed_length",
        num_parallel_reads=_parallel_reads(ds._impl),
        record_bytes=tuple(0 if size is None else int(scalar(size)) for size in sizes),
    )


def _csv(ds: Any) -> ir.Node:
    if not hasattr(ds, _NAMES):
        # Made once for each reader, so that its node is equal whenever it is read.
        setattr(ds, _NAMES, tf.data.Dataset.from_tensor_slices(tf.reshape(ds._filenames, [-1])))
    arguments = {name: _csv_argument(getattr(ds, f"_{name}")) for name in _CSV_ARGUMENTS}
    return ir.FilesReader(
        input=node_of(getattr(ds, _NAMES)),
        kind="csv",
        compression_type=scalar(ds._compression_type) or None,
        csv=ir.CsvFormat(columns=tuple(map(_csv_column, ds._record_defaults)), arguments=tuple(arguments.items())),
    )


def _csv_column(default: Any) -> tuple[str, bytes | None]:
    values = default.numpy().ravel().tolist()
    return default.dtype.name, next((each if isinstance(each, bytes) else repr(each).encode() for each in values), None)


def _csv_argument(tensor: Any) -> Any:
    return scalar(tensor) if tensor.shape.rank == 0 else tuple(tensor.numpy().tolist()) or None


def _saved(ds: Any) -> ir.Node:
    return ir.Saved(dataset=ds, path=ds._path, fn=function_from(ds._reader_func, ds))


def _files(ds: Any, kind: str, **arguments: Any) -> ir.Node:
    return ir.FilesReader(
        input=node_of(ds._filenames),
        kind=kind,
        compression_type=scalar(ds._compression_type),
        buffer_size=scalar(ds._buffer_size),
        name=ds._impl._name,
        **arguments,
    )


def _parallel_reads(implementation: Any) -> int | None:
    """Return how many files a reader reads at once, from the dataset TensorFlow implements it with."""
    match type(implementation).__name__:
        case "_ParallelInterleaveDataset":
            return int(scalar(implementation._num_parallel_calls))
        case "ParallelInterleaveDataset":
            return int(scalar(implementation._cycle_length))
        case _:
            return None


FILES: dict[str, Reader] = {
    "CsvDatasetV2": _csv,
    "FixedLengthRecordDatasetV2": _fixed_length,
    "TFRecordDatasetV2": _tfrecord,
    "TextLineDatasetV2": _text_lines,
    "_LoadDataset": _saved,
}
