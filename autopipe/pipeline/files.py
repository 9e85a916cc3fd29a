"""A reader of many files as a function that reads one."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import tensorflow as tf

from autopipe.functions.autograph import without_autograph
from autopipe.functions.function import Function
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import function_of

__all__ = ["read_one"]

_NO_FILES = ir.Source(dataset=None)


def read_one(reader: ir.FilesReader) -> Function:
    """Return the function that gives the elements of one file, as the reader gives those of all.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> read_one(extract(tf.data.TextLineDataset(["a.txt", "b.txt"]))).name
    'read'
    """
    return _traced(replace(reader, input=_NO_FILES, name=None))


@lru_cache(maxsize=64)
def _traced(reader: ir.FilesReader) -> Function:
    @without_autograph
    def read(file: Any) -> Any:
        return build(reader.on(ir.Source(dataset=tf.data.Dataset.from_tensor_slices(tf.reshape(file, [-1])))))

    return function_of(tf.data.Dataset.from_tensors("").flat_map(read))
