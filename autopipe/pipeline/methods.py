"""The methods of ``tf.data.Dataset`` that stages are calls of, and their arguments."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from autopipe.pipeline import ir

__all__ = ["MAY_BE_AUTOMATIC", "METHODS", "is_default"]

# By the class of a stage: the name, and the fields that are given by position and by name.
METHODS: dict[type[ir.Node], tuple[str, str, str]] = {
    ir.Batch: ("batch", "batch_size", "drop_remainder num_parallel_calls deterministic"),
    ir.Cache: ("cache", "filename", ""),
    ir.Enumerate: ("enumerate", "start", ""),
    ir.Filter: ("filter", "predicate", ""),
    ir.FlatMap: ("flat_map", "fn", ""),
    ir.IgnoreErrors: ("ignore_errors", "", "log_warning"),
    ir.Interleave: ("interleave", "fn", "cycle_length block_length num_parallel_calls deterministic"),
    ir.Map: ("map", "fn", "num_parallel_calls deterministic synchronous use_unbounded_threadpool"),
    ir.Prefetch: ("prefetch", "buffer_size", ""),
    ir.Rebatch: ("rebatch", "batch_size", "drop_remainder"),
    ir.Repeat: ("repeat", "count", ""),
    ir.Shard: ("shard", "num_shards index", ""),
    ir.Skip: ("skip", "count", ""),
    ir.Take: ("take", "count", ""),
    ir.TakeWhile: ("take_while", "predicate", ""),
    ir.Unbatch: ("unbatch", "", ""),
    ir.Window: ("window", "size shift stride", "drop_remainder"),
}
# Fields for which -1 lets TensorFlow choose.
MAY_BE_AUTOMATIC = frozenset({"num_parallel_calls", "num_parallel_reads", "cycle_length", "buffer_size"})


def is_default(node: ir.Node, name: str) -> bool:
    """Return whether a field has its default value; the size of a prefetch is never a default.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> batched = extract(tf.data.Dataset.range(3).batch(2))
    >>> is_default(batched, "drop_remainder"), is_default(batched, "batch_size")
    (True, False)
    """
    defaults: dict[str, Any] = {each.name: each.default for each in fields(node)}
    return not isinstance(node, ir.Prefetch) and bool(getattr(node, name) == defaults[name])
