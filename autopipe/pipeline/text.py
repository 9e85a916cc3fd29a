"""A pipeline as text: one line, or a tree for pipelines that branch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from itertools import groupby

from autopipe.pipeline import ir

__all__ = ["in_order", "one_line", "stage", "tree_lines"]

# Two branches are told apart more easily where both are shown.
_MANY = 3


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

    Only the branches of a ``zip``, ``concatenate`` or ``choose_from`` stand deeper than what follows them. Of many in a
    row that look alike, the first is shown for all.
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


def _call(name: str, *positional: object, **optional: object) -> str:
    arguments = [str(argument) for argument in positional]
    arguments += [f"{key}={value}" for key, value in optional.items() if value is not None and value is not False]
    return f"{name}({', '.join(arguments)})"


def _number(value: int | None) -> str | None:
    return "AUTOTUNE" if value == ir.AUTOTUNE else None if value is None else str(value)


def _only_if_set(value: bool | None) -> str | None:
    return None if value is None else str(value)


@singledispatch
def _stage(node: ir.Node) -> str:
    return _call(type(node).__name__.lower())


@_stage.register
def _(node: ir.Tensors) -> str:
    return "tensors"


@_stage.register
def _(node: ir.TensorSlices) -> str:
    return "tensor_slices"


@_stage.register
def _(node: ir.Range) -> str:
    return _call("range", node.start, node.stop, **({} if node.step == 1 else {"step": node.step}))


@_stage.register
def _(node: ir.RandomNumbers) -> str:
    return "random_numbers"


@_stage.register
def _(node: ir.ChooseFrom) -> str:
    return _call("choose_from", len(node.parts), stop_on_empty=node.stop_on_empty)


@_stage.register
def _(node: ir.Generator) -> str:
    return "generator"


@_stage.register
def _(node: ir.Opaque) -> str:
    return f"opaque {node.label}"


@_stage.register
def _(_node: ir.SharedCache) -> str:
    return "cache()"


@_stage.register
def _(node: ir.FilesReader) -> str:
    return _call(
        f"{node.kind}_files",
        compression=node.compression_type,
        buffer_size=node.buffer_size,
        reads=_number(node.num_parallel_reads),
    )


@_stage.register
def _(node: ir.Map) -> str:
    return _call(
        "map",
        node.fn,
        calls=_number(node.num_parallel_calls),
        deterministic=_only_if_set(node.deterministic),
        synchronous=node.synchronous,
        unbounded=node.use_unbounded_threadpool,
    )


@_stage.register
def _(node: ir.MemoizedMap) -> str:
    return _call(
        "memoized_map",
        node.fn,
        calls=_number(node.num_parallel_calls),
        deterministic=_only_if_set(node.deterministic),
        unbounded=node.use_unbounded_threadpool,
    )


@_stage.register
def _(node: ir.Filter) -> str:
    return _call("filter", node.predicate)


@_stage.register
def _(node: ir.Batch) -> str:
    return _call(
        "batch",
        node.batch_size,
        drop_remainder=node.drop_remainder,
        calls=_number(node.num_parallel_calls),
        deterministic=_only_if_set(node.deterministic),
    )


@_stage.register
def _(node: ir.PaddedBatch) -> str:
    return _call("padded_batch", node.batch_size, drop_remainder=node.drop_remainder)


@_stage.register
def _(node: ir.Rebatch) -> str:
    return _call("rebatch", node.batch_size, drop_remainder=node.drop_remainder)


@_stage.register
def _(node: ir.Window) -> str:
    return _call(
        "window",
        node.size,
        shift=None if node.shift == node.size else node.shift,
        stride=None if node.stride == 1 else node.stride,
        drop_remainder=node.drop_remainder,
    )


@_stage.register
def _(node: ir.IgnoreErrors) -> str:
    return _call("ignore_errors", log_warning=node.log_warning)


@_stage.register
def _(node: ir.Shuffle) -> str:
    return _call(
        "shuffle",
        node.buffer_size if node.while_filling is None else "all",
        seed=node.seeds[1] if node.seeded else None,
        reshuffle_each_iteration=None if node.reshuffle_each_iteration else "False",
    )


@_stage.register
def _(node: ir.Repeat) -> str:
    return _call("repeat", *(() if node.count < 0 else (node.count,)))


@_stage.register
def _(node: ir.Cache) -> str:
    if node.on_disk:
        return "cache(on disk)"
    return _call("cache", *((repr(node.filename),) if node.filename else ()))


@_stage.register
def _(node: ir.Prefetch) -> str:
    return _call("prefetch", _number(node.buffer_size))


@_stage.register
def _(node: ir.Take) -> str:
    return _call("take", node.count)


@_stage.register
def _(node: ir.Skip) -> str:
    return _call("skip", node.count)


@_stage.register
def _(node: ir.Shard) -> str:
    return _call("shard", node.num_shards, node.index)


@_stage.register
def _(node: ir.AssertCardinality) -> str:
    return f"assert_cardinality({node.count})"


@_stage.register
def _(node: ir.Enumerate) -> str:
    return _call("enumerate", *((node.start,) if node.start else ()))


@_stage.register
def _(node: ir.Saved) -> str:
    return "load"


@_stage.register
def _(node: ir.Scan) -> str:
    return _call("scan", node.fn)


@_stage.register
def _(node: ir.TakeWhile) -> str:
    return _call("take_while", node.predicate)


@_stage.register
def _(node: ir.FlatMap) -> str:
    return _call("flat_map", node.fn)


@_stage.register
def _(node: ir.GroupByWindow) -> str:
    return _call("group_by_window", node.reduce_func)


@_stage.register
def _(node: ir.Interleave) -> str:
    return _call(
        "interleave",
        node.fn,
        cycle=_number(node.cycle_length),
        block=None if node.block_length == 1 else node.block_length,
        calls=_number(node.num_parallel_calls),
        deterministic=_only_if_set(node.deterministic),
    )


@_stage.register
def _(node: ir.LegacyInterleave) -> str:
    return _call(
        "parallel_interleave",
        node.fn,
        cycle=node.cycle_length,
        block=None if node.block_length == 1 else node.block_length,
        deterministic=_only_if_set(node.deterministic),
    )


@_stage.register
def _(node: ir.Options) -> str:
    return "options"


@_stage.register
def _(node: ir.ThreadPool) -> str:
    return _call("thread_pool", node.size or "default")
