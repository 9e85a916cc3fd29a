"""A pipeline as text: one line, or a tree for pipelines that branch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from autopipe.pipeline import ir
from autopipe.pipeline.methods import MAY_BE_AUTOMATIC, METHODS, is_default

__all__ = ["in_order", "one_line", "stage", "tree_lines"]

# At least this many similar branches are shown as one; two are easier to read if both are shown.
_MANY = 3
# Stages that are not a method of a dataset, or are shown in a shorter form.
_CALLS = METHODS | {
    ir.AssertCardinality: ("assert_cardinality", "count", ""),
    ir.GroupByWindow: ("group_by_window", "reduce_func", ""),
    ir.LegacyInterleave: ("parallel_interleave", "fn", "cycle_length block_length deterministic"),
    ir.MemoizedMap: ("memoized_map", "fn", "num_parallel_calls deterministic use_unbounded_threadpool"),
    ir.PaddedBatch: ("padded_batch", "batch_size", "drop_remainder"),
    ir.Range: ("range", "start stop", "step"),
    ir.Scan: ("scan", "fn", ""),
    ir.Window: ("window", "size", "shift stride drop_remainder"),
}
_WORDS: dict[type[ir.Node], str] = {
    ir.Generator: "generator",
    ir.Options: "options",
    ir.RandomNumbers: "random_numbers",
    ir.Saved: "load",
    ir.Tensors: "tensors",
    ir.TensorSlices: "tensor_slices",
}
_SHORT = {
    "block_length": "block",
    "compression_type": "compression",
    "cycle_length": "cycle",
    "num_parallel_calls": "calls",
    "num_parallel_reads": "reads",
    "use_unbounded_threadpool": "unbounded",
}


def one_line(node: ir.Node) -> str:
    """Return the pipeline from its source to its end, such as ``range(0, 9) | shuffle(3) | batch(2)``."""
    match node.inputs:
        case ():
            return stage(node)
        case (only,):
            return f"{one_line(only)} | {stage(node)}"
        case several:
            return f"{stage(node)}[{', '.join(one_line(each) for each in several)}]"


def in_order(node: ir.Node, depth: int = 0) -> Iterator[tuple[int, ir.Node | str]]:
    """Yield how deep each stage stands and the stage, sources first; a heading before each of several branches.

    Only the branches of a ``zip``, ``concatenate`` or ``choose_from`` are indented. Of many in a row that look alike,
    only the first is shown.
    """
    branches = len(node.inputs) > 1
    parts = [list(in_order(child, depth + branches)) for child in node.inputs]
    if isinstance(node, ir.ChooseFrom):
        yield depth, "choices"
        yield from parts.pop(0)
    number = 1
    for _, alike in groupby(parts, key=_looks if len(parts) >= _MANY else id):
        shown, *others = alike
        if branches:
            last = number + len(others)
            yield depth, f"branches {number} to {last}, alike" if others else f"branch {number}"
            number = last + 1
        yield from shown
    yield depth, node


def _looks(lines: list[tuple[int, ir.Node | str]]) -> list[tuple[int, str, str | None]]:
    return [(depth, each, None) if isinstance(each, str) else (depth, stage(each), each.line) for depth, each in lines]


def tree_lines(node: ir.Node) -> list[str]:
    """Return one line per stage and per heading, in their order and indented as deep as they stand."""
    return ["  " * depth + (each if isinstance(each, str) else stage(each)) for depth, each in in_order(node)]


def stage(node: ir.Node) -> str:
    """Return one transformation with its arguments; those left at TensorFlow's default are not shown."""
    shown = _stage(node)
    return f"{shown} as {node.name!r}" if node.name else shown


def _stage(node: ir.Node) -> str:
    match node:
        case ir.SharedCache():
            return "cache()"
        case ir.Opaque(label=label):
            return f"opaque {label}"
        case ir.Cache(on_disk=True):
            return "cache(on disk)"
        case ir.Cache(filename=file) if file:
            return f"cache({file!r})"
        case ir.Repeat(is_infinite=True):
            return "repeat()"
        case ir.ChooseFrom(parts=parts):
            return _call(node, "choose_from", [str(len(parts))], "stop_on_empty")
        case ir.FilesReader(kind=kind):
            return _call(node, f"{kind}_files", [], "compression_type buffer_size num_parallel_reads")
        case ir.Shuffle():
            return _shuffle(node)
        case ir.ThreadPool(size=size):
            return f"thread_pool({size or 'default'})"
    if type(node) in _WORDS:
        return _WORDS[type(node)]
    name, positional, named = _CALLS.get(type(node), (type(node).__name__.lower(), "", ""))
    return _call(node, name, [_value(node, each) for each in positional.split() if _is_said(node, each)], named)


def _call(node: ir.Node, name: str, positional: list[str], named: str) -> str:
    more = [f"{_SHORT.get(each, each)}={_value(node, each)}" for each in named.split() if _is_said(node, each)]
    return f"{name}({', '.join([*positional, *more])})"


def _is_said(node: ir.Node, name: str) -> bool:
    if isinstance(node, ir.Window) and name == "shift":
        return node.shift != node.size
    value = getattr(node, name)
    match name:
        case "block_length" | "step":
            return bool(value != 1)
        case "deterministic":
            return value is not None
        case "stop_on_empty":
            return bool(value)
    return not is_default(node, name)


def _value(node: ir.Node, name: str) -> str:
    value = getattr(node, name)
    return "AUTOTUNE" if value == ir.AUTOTUNE and name in MAY_BE_AUTOMATIC else str(value)


def _shuffle(node: ir.Shuffle) -> str:
    given = [str(node.buffer_size) if node.while_filling is None else "all"]
    if node.seeded:
        given.append(f"seed={node.seeds[1]}")
    if not node.reshuffle_each_iteration:
        given.append("reshuffle_each_iteration=False")
    return f"shuffle({', '.join(given)})"
