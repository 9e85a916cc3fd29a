"""What a function does besides computing its result from its arguments, read from its graph.

Every op of the function and of the functions it calls is checked. An op that is registered as stateful in TensorFlow,
and that is not known here, counts as an unknown effect: when in doubt, refuse. Some ops are registered wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.resources import fixed_table_reads, generator_ops
from autopipe.functions.declared import declared_stateless
from autopipe.functions.file_ops import READERS
from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.source import written_at
from autopipe.functions.subgraph import called_graphs

__all__ = ["Effects", "described", "effects", "is_stateful", "ops_that_change", "ops_with_effects"]

# Ops that run other functions, and have only the effects of those.
_CALLS = frozenset(
    "Case For GeneratorDataset If MapDefun PartitionedCall ReduceDataset StatefulPartitionedCall StatelessCase "
    "StatelessIf StatelessWhile SymbolicGradient While _If _While".split()
)
# Stateful by registration, but without an effect that another element or another run could see. The effects of a
# dataset that is read here count where it is made.
_HARMLESS = frozenset(
    "Assert CheckNumerics CheckNumericsV2 DatasetToSingleElement NoOp Placeholder RangeDataset TensorDataset "
    "TensorSliceDataset _Arg _Retval".split()
)
_KNOWN = {
    "file_reads": READERS | {"GenerateVocabRemapping", "MatchingFiles", "ReadFile"},
    "generator": frozenset("RngReadAndSkip RngSkip".split()),
    # Registered as stateless, though they draw, write files, or keep what they have seen.
    "other": frozenset(
        "CacheDataset ChooseFastestBranchDataset ChooseFastestDataset ExperimentalChooseFastestDataset RegisterDataset "
        "RegisterDatasetV2 RiscRandomUniform SamplingDataset ShuffleAndRepeatDataset ShuffleDataset SnapshotDataset "
        "SnapshotDatasetV2".split()
    ),
    "python": frozenset("EagerPyFunc PyFunc PyFuncStateless".split()),
    "table_reads": frozenset("LookupTableFind LookupTableFindV2 LookupTableSize LookupTableSizeV2".split()),
    "variable_reads": frozenset("ReadVariableOp ResourceGather ResourceGatherNd VarIsInitializedOp".split()),
}
_STEADY_KINDS = frozenset({"file_reads", "stateless_python"})


@dataclass(frozen=True)
class Effects:
    """The ops of a function that do more than compute, by kind; each field holds sorted op types.

    Attributes:
        unseeded_random: draw numbers that differ in every run.
        seeded_random: draw numbers from a seed the author gave.
        generator: draw from a generator whose state other code may share, such as that of a Keras layer.
        file_reads: read files; the same result for as long as the files stay.
        table_reads: look up in a table that other code may fill; a static table is part of the function.
        variable_reads: read a variable that other code may assign.
        python: run Python code.
        stateless_python: run Python code that its author declares stateless.
        other: any other state, known or unknown.
    """

    unseeded_random: tuple[str, ...] = ()
    seeded_random: tuple[str, ...] = ()
    generator: tuple[str, ...] = ()
    file_reads: tuple[str, ...] = ()
    table_reads: tuple[str, ...] = ()
    variable_reads: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    stateless_python: tuple[str, ...] = ()
    other: tuple[str, ...] = ()

    @property
    def pure(self) -> bool:
        """Whether the result depends on the arguments alone and nothing else happens."""
        return self == Effects()

    @property
    def steady(self) -> bool:
        """Whether the same element always gives the same result, as long as the files it reads do not change."""
        return self == Effects(file_reads=self.file_reads, stateless_python=self.stateless_python)

    @property
    def runs_python(self) -> tuple[str, ...]:
        """The ops that run Python code, in one thread at a time, whatever its author declares."""
        return self.python + self.stateless_python

    @property
    def unseen(self) -> bool:
        """Whether only users of its generator can observe when, in what order and how often it runs."""
        return not (self.python or self.variable_reads or self.table_reads or self.other)

    @property
    def has_side_effects(self) -> bool:
        """Whether running it once more may change something; only reading state does not."""
        return bool(self.python or self.other)

    def describe(self) -> str:
        """Return the effects as a phrase, such as ``draws random numbers (RandomUniform)``."""
        phrases = {
            "draws random numbers": self.unseeded_random,
            "draws random numbers from the author's seed": self.seeded_random,
            "draws from a generator": self.generator,
            "reads files": self.file_reads,
            "looks up in a table that may be filled": self.table_reads,
            "reads a variable": self.variable_reads,
            "runs Python code": self.python,
            "runs Python code that is declared stateless": self.stateless_python,
            "keeps state": self.other,
        }
        found = [f"{phrase} ({', '.join(ops)})" for phrase, ops in phrases.items() if ops]
        return " and ".join(found) or "only computes"


@remembered
def effects(fn: Function) -> Effects:
    """Return what a function does besides computing.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> effects(extract(tf.data.Dataset.range(3).map(lambda x: x + 1)).fn).pure
    True
    >>> effects(extract(tf.data.Dataset.range(3).map(lambda x: tf.random.uniform(()))).fn).describe()
    'draws random numbers (RandomUniform)'
    """
    found: dict[str, set[str]] = {}
    for kind, op_type in _effects_of_ops(fn):
        found.setdefault(kind, set()).add(op_type)
    return Effects(**{kind: tuple(sorted(types)) for kind, types in found.items()})


def _effects_of_ops(fn: Function) -> Iterator[tuple[str, str]]:
    """Yield kind and type of every op with an effect, of the function and of the functions it calls."""
    graph = fn.concrete.graph
    drawing = generator_ops(graph)
    harmless = fixed_table_reads(graph)
    yield from (("other", "a captured dataset") for _ in _captured_datasets(graph))
    for op in graph.get_operations():
        if op not in harmless:
            kind = "generator" if op in drawing else _kind(op.node_def)
            if kind:
                yield kind, op.type
    for function in graph.as_graph_def().library.function:
        for node in function.node_def:
            kind = _kind(node)
            if kind:
                yield kind, node.op


def ops_with_effects(fn: Function) -> set[Any]:
    """Return the ops of a function that do more than compute, or that call a function which does."""
    return set(_kinds_by_op(fn))


def ops_that_change(fn: Function) -> set[Any]:
    """Return the ops of a function that may give another result for the same element."""
    return {op for op, kinds in _kinds_by_op(fn).items() if not kinds <= _STEADY_KINDS}


def _kinds_by_op(fn: Function) -> dict[Any, set[str]]:
    graph = fn.concrete.graph
    harmless = fixed_table_reads(graph)
    captured = _captured_datasets(graph)
    bodies = {function.signature.name: function.node_def for function in graph.as_graph_def().library.function}
    found = {}
    for op in graph.get_operations():
        kinds = {kind for node in _with_called(op.node_def, bodies) if (kind := _kind(node))}
        kinds |= {"other"} if op in captured else set()
        if kinds and op not in harmless:
            found[op] = kinds
    return found


def _captured_datasets(graph: Any) -> set[Any]:
    """Return the ops through which a graph captures datasets, whose stages it does not show."""
    return {inside.op for _, inside in graph.captures if inside.dtype == tf.variant}


def described(graph: Any, op: Any) -> str:
    """Return the type of an op and where it was written; for one that runs others, those of the op with an effect.

    >>> import tensorflow as tf
    >>> graph = tf.function(lambda: tf.random.uniform(())).get_concrete_function().graph
    >>> described(graph, next(op for op in graph.get_operations() if op.type == "RandomUniform"))[:14]
    'RandomUniform '
    """
    inner = _effect_inside(graph, op) or op
    source = written_at(inner) or written_at(op)
    return f"{inner.type} ({source})" if source else str(inner.type)


def _effect_inside(graph: Any, op: Any) -> Any | None:
    for body in called_graphs(graph, op):
        for inner in body.get_operations() if body is not None else ():
            found = _effect_inside(body, inner) or (inner if _kind(inner.node_def) else None)
            if found is not None:
                return found
    return None


def _with_called(node: Any, bodies: Mapping[str, Any]) -> Iterator[Any]:
    yield node
    for attribute in node.attr.values():
        called = [attribute.func] if attribute.HasField("func") else attribute.list.func
        for function in called:
            for inner in bodies.get(function.name, ()):
                yield from _with_called(inner, bodies)


def _kind(node: Any) -> str | None:
    """Return the field of :class:`Effects` an op belongs to; ``None`` for one that only computes."""
    if node.op in _CALLS or node.op in _HARMLESS:
        return None
    for kind, types in _KNOWN.items():
        if node.op in types:
            return "stateless_python" if kind == "python" and declared_stateless(node) else kind
    if _draws_unregistered(node):
        return "unseeded_random"
    if not is_stateful(node.op):
        return None
    if "seed" in node.attr and "seed2" in node.attr and not node.op.endswith("DatasetV3"):
        return "seeded_random" if node.attr["seed"].i or node.attr["seed2"].i else "unseeded_random"
    return "other"


def _draws_unregistered(node: Any) -> bool:
    """Return whether an op draws anew in each call, though its registration calls it stateless."""
    match node.op:
        case "FractionalAvgPool" | "FractionalMaxPool":
            return not node.attr["deterministic"].b
        case "ExtractGlimpse" | "ExtractGlimpseV2":
            return bool(node.attr["noise"].s != b"zero")
    return False


@lru_cache(maxsize=4096)
def is_stateful(op_type: str) -> bool:
    """Return whether an op is registered as stateful in TensorFlow; an unknown one counts as such."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(op_type)
    return True if definition is None else bool(definition.is_stateful)
