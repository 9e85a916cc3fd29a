"""The rule named as this file."""

from autopipe.functions.csv_rows import parses_csv
from autopipe.pipeline.ir import Cache, FilesReader, FlatMap, Interleave, LegacyInterleave, Node
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import (
    FitsMemory,
    NoErrorIsIgnored,
    NotCachedYet,
    ReadToItsEnd,
    SameEveryEpoch,
    WorthCaching,
)

# There is no parsing by the batch, so that this is saved of every row.
_LEAST_SAVED_SECONDS = 4e-6


@rule(keeps=Keeps.SEQUENCE)
def cache_csv(node: Node) -> Rewrite | None:
    """csv_files(names)  ->  csv_files(names) | cache

    A ``CsvDataset`` parses every line again in every epoch, and each file in one thread; so does what is made of many,
    as by ``make_csv_dataset``. The rows are kept in memory, before the shuffle. It takes: names and files that are the
    same in every epoch, rows that fit the RAM budget, parsing that costs more than reading its result from memory, no
    cache that serves it already, and downstream no ``ignore_errors`` and nothing that stops before the end.
    """
    if not isinstance(node, FilesReader | FlatMap | Interleave | LegacyInterleave) or not _parses(node):
        return None
    safe = (NotCachedYet(node), SameEveryEpoch(node), NoErrorIsIgnored(), ReadToItsEnd(node))
    return Rewrite(Cache(input=node), (*safe, WorthCaching(node, _LEAST_SAVED_SECONDS), FitsMemory(node)))


def _parses(node: FilesReader | FlatMap | Interleave | LegacyInterleave) -> bool:
    return node.csv is not None if isinstance(node, FilesReader) else parses_csv(node.fn)
