"""Findings about work that is done one after the other, in Python, or in the wrong place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autopipe.functions.analysis.effects import effects
from autopipe.functions.function import Function
from autopipe.pipeline import ir, trees
from autopipe.pipeline.signature import signature
from autopipe.pipeline.tensorflow_rewrites import does_by_itself
from autopipe.report.findings._base import Finding, Look, Seen, at, before

__all__ = ["LOOKS"]

_MUCH_WORK = 0.2
_ELEMENTWISE = frozenset("AddV2 Cast Const Identity Mul NoOp Placeholder RealDiv Sub".split())


def arithmetic_after_batch(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP105: arithmetic that the accelerator does faster."""
    match node:
        case ir.Map(fn=fn) if isinstance(before(node), ir.Batch) and _widens(fn):
            yield at(
                node,
                "AP105",
                f"{fn} only scales and casts, to more bytes than it takes: the accelerator does that faster, "
                "and less is copied to it",
                "move it into the model, as a keras.layers.Rescaling",
            )


def held_back_prefetch(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP201: nothing is made ahead of the consumer."""
    if not isinstance(node, ir.End):
        return
    last = trees.last_stage(node.input)
    if isinstance(last, ir.Prefetch) and last.buffer_size == 0:
        yield at(
            last,
            "AP201",
            "it makes nothing ahead of the consumer, and keeps TensorFlow from doing so",
            "end with prefetch(tf.data.AUTOTUNE)",
        )
        return
    if not isinstance(last, ir.Prefetch) and not does_by_itself(node.input, "inject_prefetch"):
        yield at(
            last,
            "AP201",
            "nothing is made ahead of the consumer, and the options keep TensorFlow from adding a prefetch",
            "end with prefetch(tf.data.AUTOTUNE)",
        )


def sequential_map(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP202: a map that makes one element after the other, where that takes time."""
    if not isinstance(node, ir.Map) or node.num_parallel_calls is not None or effects(node.fn).runs_python:
        return
    cost = seen.cost(node)
    if cost is None or cost.parallelism is not None or cost.share < _MUCH_WORK:
        return
    found = effects(node.fn)
    because = "" if found.pure else f", since {node.fn} {found.describe()}"
    yield at(
        node,
        "AP202",
        f"it makes one element after the other, and takes {cost.share:.0%} of the work; TensorFlow does not run it in "
        f"parallel by itself{because}",
        "map(..., num_parallel_calls=tf.data.AUTOTUNE), if the order of its draws or reads does not matter",
    )


def sequential_reads(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP203: several files, read one after the other."""
    match node:
        case ir.Interleave(num_parallel_calls=None, fn=fn) | ir.FlatMap(fn=fn) if _reads_several(node, fn):
            remedy = "interleave(..., num_parallel_calls=tf.data.AUTOTUNE, cycle_length=...)"
        case ir.LegacyInterleave(cycle_length=1, fn=fn) if _reads_several(node, fn):
            remedy = "num_parallel_reads=... of make_csv_dataset, or cycle_length=... of parallel_interleave"
        case ir.FilesReader(num_parallel_reads=None, csv=csv) if _are_several(node.input):
            # CsvDataset takes no such argument.
            given = "" if csv else "give the reader num_parallel_reads, or "
            remedy = f"{given}interleave over the names with num_parallel_calls=tf.data.AUTOTUNE"
        case _:
            return
    if seen.is_slower(node, "parallel_flat_map", "parallel_interleave", "parallel_reads"):
        return
    yield at(node, "AP203", "it reads one file after the other, and waits for each", remedy)


def _reads_several(node: ir.Interleave | ir.FlatMap | ir.LegacyInterleave, fn: Function) -> bool:
    return bool(effects(fn).file_reads) and _are_several(node.input)


def _are_several(names: ir.Node) -> bool:
    return signature(names).cardinality not in (0, 1)


def python_function(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP204: Python code, which runs in one thread at a time."""
    called = trees.called_by(node) if isinstance(node, ir.Map | ir.Filter) else ()
    cost = seen.cost(node)
    share = f", and takes {cost.share:.0%} of the work" if cost else ""
    if cost is not None and cost.share < _MUCH_WORK:
        return
    for fn in called:
        found = effects(fn)
        if not found.runs_python:
            continue
        declare = (
            "if its result depends only on its arguments (no random numbers) and it has no side effects, mark it with "
            "@autopipe.stateless, so that it may be done once; or "
        )
        yield at(
            node,
            "AP204",
            f"{fn} runs Python code ({', '.join(found.runs_python)}), in one thread at a time, however many calls "
            f"there are{share}",
            f"{declare if found.python else ''}write it with TensorFlow ops",
        )


def python_source(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP205: a generator that takes much of the work."""
    cost = seen.cost(node) if isinstance(node, ir.Generator) else None
    if cost is not None and cost.share >= _MUCH_WORK:
        yield at(
            node,
            "AP205",
            f"it is a Python generator: one element at a time, and {cost.share:.0%} of the work",
            "if it gives the same in every epoch and has no side effects, mark it with @autopipe.stateless, so that it "
            "may be cached; or yield only names or indices, and load in a map with num_parallel_calls",
        )


LOOKS: Mapping[str, Look] = {
    "AP105": arithmetic_after_batch,
    "AP201": held_back_prefetch,
    "AP202": sequential_map,
    "AP203": sequential_reads,
    "AP204": python_function,
    "AP205": python_source,
}


def _widens(fn: Function) -> bool:
    """Return whether a function only does arithmetic with constants and gives more bytes than it takes."""
    operations = fn.concrete.graph.get_operations()
    if not all(op.type in _ELEMENTWISE for op in operations) or not any(op.type == "Cast" for op in operations):
        return False
    taken, given = (sum(tensor.dtype.size for tensor in each) for each in (fn.element_inputs, fn.concrete.outputs))
    return bool(given > taken)
