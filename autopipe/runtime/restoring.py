"""Which stages TensorFlow restores correctly, when an iterator continues from the state of another one.

For those named here, a test saves and restores an iterator after every element. All others count as restored wrongly.
So does a choice among datasets: once one of them has ended, a restored ``sample_from_datasets`` never ends. And so does
a reader of CSV files with a header: restored, it leaves out most lines; one inside a function is not checked for that.
"""

from __future__ import annotations

import re
from itertools import chain

from autopipe.functions.function import Function
from autopipe.functions.memo import remembered
from autopipe.functions.subgraph import with_called
from autopipe.pipeline import ir, trees

__all__ = ["restored_wrongly"]

# Classes of TensorFlow's Python datasets and its ops, without their versions.
_RESTORED = frozenset(
    "assertcardinality batch cache concatenate densetoragged densetosparsebatch filter fixedlengthrecord "
    "flatmap generator groupbyreducer groupbywindow ignoreerrors interleave list load map mapandbatch "
    "maxintraopparallelism model options paddedbatch parallelbatch parallelinterleave parallelmap "
    "parseexample prefetch privatethreadpool random range rebatch repeat restructured rewrite scan shard skip "
    "sparsetensorslice sql take takewhile tensor tensorslice textline tfrecord unbatch unique variant window "
    "zip".split()
)
# A shuffle that is an opaque stage may draw its orders from a seed that the next iterator draws from too; and a
# reduction has read its input to the end when it gives its only element.
_IN_FUNCTIONS = _RESTORED | {"reduce", "shuffle"}


def restored_wrongly(tree: ir.Node) -> str | None:
    """Return a stage of a pipeline that is not known to be restored correctly; ``None`` if there is none.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> one, other = tf.data.Dataset.range(3), tf.data.Dataset.range(9)
    >>> restored_wrongly(extract(one.unique().batch(2)))
    >>> restored_wrongly(extract(tf.data.Dataset.sample_from_datasets([one, other]).batch(2)))
    '_DirectedInterleaveDataset'
    """
    unread = (name for node in trees.walk(tree) if isinstance(node, ir.Opaque) for name in node.classes)
    made = (name for fn in trees.functions(tree) for name in _made_in(fn))
    wrongly = chain(
        ("CsvDatasetV2" for node in trees.walk(tree) if isinstance(node, ir.FilesReader) and _has_header(node)),
        ("_DirectedInterleaveDataset" for node in trees.walk(tree) if isinstance(node, ir.ChooseFrom)),
        (name for name in unread if _plain(name) not in _RESTORED),
        (name for name in made if _plain(name) not in _IN_FUNCTIONS),
    )
    return next(wrongly, None)


def _has_header(reader: ir.FilesReader) -> bool:
    return reader.csv is not None and bool(dict(reader.csv.arguments)["header"])


@remembered
def _made_in(fn: Function) -> tuple[str, ...]:
    """Return the types of the ops in a function that make a dataset."""
    nodes = with_called(fn.concrete.graph.as_graph_def())
    return tuple(dict.fromkeys(node.op for node in nodes if re.search(r"Dataset(V\d+)?$", node.op)))


def _plain(name: str) -> str:
    without_version = re.sub(r"V\d+$", "", name.strip("_").removeprefix("Legacy").removeprefix("Experimental"))
    return without_version.removesuffix("Dataset").lower()
