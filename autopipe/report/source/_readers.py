"""Readers of files."""

from __future__ import annotations

from autopipe.pipeline import ir
from autopipe.report.source._literals import constant

__all__ = ["name_of", "reader"]

_READERS = {"tfrecord": "TFRecordDataset", "text": "TextLineDataset", "fixed_length": "FixedLengthRecordDataset"}


def reader(node: ir.FilesReader, files: str) -> str:
    """Return the reader of the files that a variable holds the names of."""
    if node.csv is not None:
        return _csv(node, node.csv, files)
    given = [files]
    if node.record_bytes is not None:
        header, record, footer = node.record_bytes
        given += [str(record), f"header_bytes={header}", f"footer_bytes={footer}"]
    for name in ("compression_type", "buffer_size", "num_parallel_reads"):
        value = getattr(node, name)
        if value is not None:
            automatic = name == "num_parallel_reads" and value == ir.AUTOTUNE
            given.append(f"{name}={'tf.data.AUTOTUNE' if automatic else repr(value)}")
    return f"tf.data.{_READERS[node.kind]}({', '.join(given)}{name_of(node)})"


def _csv(node: ir.FilesReader, form: ir.CsvFormat, files: str) -> str:
    columns = [_column(*column) for column in form.columns]
    arguments = {"compression_type": node.compression_type, **dict(form.arguments)}
    given = [f"{name}={value!r}" for name, value in arguments.items() if value is not None]
    return f"tf.data.experimental.CsvDataset({files}, [{', '.join(columns)}], {', '.join(given)})"


def _column(kind: str, default: bytes | None) -> str:
    if default is None:
        return f"tf.{kind}"
    value = default if kind == "string" else float(default) if "float" in kind else int(default)
    return constant(value, kind)


def name_of(node: ir.Node, after: bool = True) -> str:
    """Return the argument for the name of a stage, if it has one."""
    return f"{', ' if after else ''}name={node.name!r}" if node.name else ""
