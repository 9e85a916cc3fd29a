"""What a function does besides computing its result from its arguments, read from its graph.

Every op of the function and of the functions it calls is looked at. An op whose registration in TensorFlow calls it
stateful, and that is not known here, counts as an unknown effect: unknown means no.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from autopipe.functions.function import Function

__all__ = ["Effects", "effects"]

# Ops that run other functions: what they do is what those do.
_CALLS = frozenset(
    "Case For If MapDefun PartitionedCall StatefulPartitionedCall StatelessCase StatelessIf StatelessWhile "
    "SymbolicGradient While _If _While".split()
)
# Stateful by registration, but without an effect that another element or another run could see.
_HARMLESS = frozenset(
    "Assert CheckNumerics CheckNumericsV2 NoOp Placeholder RangeDataset TensorDataset TensorSliceDataset "
    "_Arg _Retval".split()
)
_FILE_READS = frozenset(
    "FixedLengthRecordDataset FixedLengthRecordDatasetV2 MatchingFiles ReadFile TFRecordDataset "
    "TFRecordDatasetV2 TextLineDataset".split()
)
_PYTHON = frozenset("EagerPyFunc GeneratorDataset PyFunc PyFuncStateless".split())
_VARIABLE_READS = frozenset("ReadVariableOp ResourceGather ResourceGatherNd VarIsInitializedOp".split())
_TABLE_READS = frozenset("LookupTableFind LookupTableFindV2 LookupTableSize LookupTableSizeV2".split())


@dataclass(frozen=True)
class Effects:
    """The ops of a function that do more than compute, by kind; each field holds sorted op types.

    Attributes:
        unseeded_random: draw numbers that differ in every run.
        seeded_random: draw numbers from a seed the author gave.
        file_reads: read files; the same result for as long as the files stay.
        table_reads: look up in a table that other code may fill.
        variable_reads: read a variable that other code may assign.
        python: run Python code.
        other: any other state, known or unknown.
    """

    unseeded_random: tuple[str, ...] = ()
    seeded_random: tuple[str, ...] = ()
    file_reads: tuple[str, ...] = ()
    table_reads: tuple[str, ...] = ()
    variable_reads: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    other: tuple[str, ...] = ()

    @property
    def pure(self) -> bool:
        """Whether the result depends on the arguments alone and nothing else happens."""
        return self == Effects()

    @property
    def unseen(self) -> bool:
        """Whether nobody can see when, in what order or how often the function runs, but by its result."""
        return not (self.python or self.other)

    def describe(self) -> str:
        """Return the effects as a phrase, such as ``draws random numbers (RandomUniform)``."""
        phrases = {
            "draws random numbers": self.unseeded_random,
            "draws random numbers from the author's seed": self.seeded_random,
            "reads files": self.file_reads,
            "looks up in a table that may be filled": self.table_reads,
            "reads a variable": self.variable_reads,
            "runs Python code": self.python,
            "keeps state": self.other,
        }
        found = [f"{phrase} ({', '.join(ops)})" for phrase, ops in phrases.items() if ops]
        return " and ".join(found) or "only computes"


@lru_cache(maxsize=1024)
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
    for op in _ops(fn):
        kind = _kind(op)
        if kind:
            found.setdefault(kind, set()).add(op.op)
    return Effects(**{kind: tuple(sorted(types)) for kind, types in found.items()})


def _ops(fn: Function) -> Iterator[Any]:
    """Yield the node of every op of the function and of the functions it calls."""
    graph = fn.concrete.graph.as_graph_def()
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def _kind(op: Any) -> str | None:
    """Return the field of :class:`Effects` an op belongs to; ``None`` for one that only computes."""
    if op.op in _CALLS or op.op in _HARMLESS:
        return None
    known = {
        "file_reads": _FILE_READS,
        "python": _PYTHON,
        "table_reads": _TABLE_READS,
        "variable_reads": _VARIABLE_READS,
    }
    for kind, types in known.items():
        if op.op in types:
            return kind
    if not _is_stateful(op.op):
        return None
    if "seed" in op.attr and "seed2" in op.attr and not op.op.endswith("DatasetV3"):
        return "seeded_random" if op.attr["seed"].i or op.attr["seed2"].i else "unseeded_random"
    return "other"


@lru_cache(maxsize=4096)
def _is_stateful(op_type: str) -> bool:
    """Return whether TensorFlow's registration calls an op stateful; one that it does not know counts as such."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(op_type)
    return True if definition is None else bool(definition.is_stateful)
