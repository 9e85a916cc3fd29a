"""Readers of files."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autopipe.functions.autograph import without_autograph
from autopipe.pipeline import ir
from autopipe.pipeline.builders._base import build_stage

__all__: list[str] = []


@build_stage.register
def _files_reader(node: ir.FilesReader, files: Any) -> Any:
    arguments = {
        "compression_type": node.compression_type,
        "buffer_size": node.buffer_size,
        "num_parallel_reads": node.num_parallel_reads,
        "name": node.name,
    }
    match node.kind:
        case "tfrecord":
            return tf.data.TFRecordDataset(files, **arguments)
        case "text":
            return tf.data.TextLineDataset(files, **arguments)
        case "fixed_length":
            assert node.record_bytes is not None
            header, record, footer = node.record_bytes
            return tf.data.FixedLengthRecordDataset(
                files, record, header_bytes=header, footer_bytes=footer, **arguments
            )
        case "csv":
            return _csv(node, files)
        case unknown:
            raise TypeError(f"A reader's kind must be tfrecord, text, fixed_length or csv, but got {unknown!r}.")


def _csv(node: ir.FilesReader, files: Any) -> Any:
    assert node.csv is not None
    columns = [_csv_default(*column) for column in node.csv.columns]
    arguments = {"compression_type": node.compression_type, **dict(node.csv.arguments)}

    @without_autograph
    def rows(names: Any) -> Any:
        return tf.data.experimental.CsvDataset(names, columns, **arguments)

    return rows(node.input.components[0]) if isinstance(node.input, ir.TensorSlices) else files.flat_map(rows)


def _csv_default(kind: str, default: bytes | None) -> Any:
    if default is None:
        return tf.dtypes.as_dtype(kind)
    return tf.constant([default if kind == "string" else float(default) if "float" in kind else int(default)], kind)
