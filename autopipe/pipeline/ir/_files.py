"""Readers of files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autopipe.pipeline.ir._base import Unary

__all__ = ["CsvFormat", "FilesReader"]


@dataclass(frozen=True, kw_only=True)
class CsvFormat:
    """How a ``CsvDataset`` parses a line.

    Attributes:
        columns: the name of the type of each column that is read, and its default as text; ``None`` if it has none.
        arguments: the other arguments, by their names.
    """

    columns: tuple[tuple[str, bytes | None], ...]
    arguments: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class FilesReader(Unary):
    """A reader of the files its input names: ``TFRecordDataset``, ``TextLineDataset`` and others.

    Attributes:
        kind: ``"tfrecord"``, ``"text"``, ``"fixed_length"`` or ``"csv"``.
        num_parallel_reads: files read at once; ``None`` reads one after the other.
        buffer_size: bytes of the read buffer; ``None`` is TensorFlow's default.
        record_bytes: for ``"fixed_length"``: bytes of header, record and footer.
        csv: for ``"csv"``: how a line is parsed.
    """

    kind: str
    compression_type: str | None = None
    buffer_size: int | None = None
    num_parallel_reads: int | None = None
    record_bytes: tuple[int, int, int] | None = None
    csv: CsvFormat | None = None
