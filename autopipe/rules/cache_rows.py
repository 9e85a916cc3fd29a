from dataclasses import replace
from typing import NamedTuple

from autopipe.functions.analysis.rounding import jumps_after_regrouping, rounds_alike
from autopipe.functions.batched.exact import jumps_in_batch, rounds_rows_alike
from autopipe.functions.function import Function
from autopipe.functions.parts.cut import IllegalCutError
from autopipe.functions.parts.fixed_part import changes_between_epochs, split_fixed_part
from autopipe.pipeline.ir import (
    AssertCardinality,
    Batch,
    Cache,
    Concatenate,
    Map,
    Node,
    Options,
    Prefetch,
    Repeat,
    Shuffle,
    Skip,
    Take,
    Unbatch,
)
from autopipe.pipeline.signature import signature
from autopipe.rules._base import Keeps, Obligation, Rewrite, rule
from autopipe.rules._caching import fixed_before_mixing, nothing_to_keep
from autopipe.rules._obligations import (
    FitsMemory,
    NoErrorIsIgnored,
    NotCachedYet,
    OthersStartSoon,
    ReadToItsEnd,
    RoundingUnseen,
    RowsApart,
    SameEveryEpoch,
    SameOnSample,
    WholeBatches,
    WorthCaching,
)

# The cost of a call is not saved: a batch pays for it only once.
_LEAST_SAVED_SECONDS = 3e-6
_ROWS_COMPARED = 64
# Leaving out this many rows at the beginning gives all others different neighbours.
_FEW = 3


@rule(keeps=Keeps.SEQUENCE)
def cache_rows(node: Node) -> Rewrite | None:
    """shuffle(n) | batch(b) | map(f)  ->  batch(b) | map(f) | unbatch | cache | shuffle(n) | batch(b)

    Batches of shuffled elements differ in every epoch, and cannot be cached. But where f treats each row alike whatever
    the others are, as a text vectorization or a lookup does, the rows can: they are made once, by the batch as before,
    and then shuffled and batched again. If f draws random numbers, this is done with the part before the first draw.
    Where only whole batches are made, the last one is filled up with rows of the first, which are then dropped. If some
    rows are left over so, an f that may fail is refused, since it could fail on those. It needs: only ops in f that are
    known to treat each row by itself, the same results on a sample in batches with other neighbours, and what
    ``cache_fixed_work`` needs.
    """
    if not isinstance(node, Map) or not node.one_for_one_in_order:
        return None
    below = _below(node)
    if below is None:
        return None
    try:
        parts = split_fixed_part(node.fn, by_rows=True)
    except IllegalCutError:
        # cache_fixed_work says why.
        return None
    if nothing_to_keep(node.fn, parts):
        return None
    kept = _kept(node, below, parts)
    made = kept.made
    functions = [each.fn for each in (*below.maps, made)]
    exact = all(map(rounds_rows_alike, functions))
    unseen = [] if exact else [RoundingUnseen(jumps_in_batch(fn), "in another batch") for fn in functions]
    if parts and not rounds_alike(node.fn, *parts):
        unseen.append(RoundingUnseen(jumps_after_regrouping(node.fn)))
    provided: tuple[Obligation, ...] = (
        *(RowsApart(fn) for fn in functions),
        WholeBatches(below.batch, below.source, tuple(functions)),
        NotCachedYet(node),
        SameEveryEpoch(made),
        NoErrorIsIgnored(),
        ReadToItsEnd(made, one_pass=node.on(made.input)),
        *unseen,
        WorthCaching(kept.rows, _LEAST_SAVED_SECONDS),
        SameOnSample(*kept.compared, over=below.source, exact=exact),
        FitsMemory(kept.rows),
        OthersStartSoon(kept.result),
    )
    return Rewrite(kept.result, provided, Keeps.ELEMENTS if unseen else None)


class _Below(NamedTuple):
    """Where the rows of a map come from.

    Attributes:
        source: the part that seems to give the same elements in the same order in every epoch.
        passed: the stages that mix and repeat them, the last one first.
        batch: the batch.
        maps: the maps between it and the map, the last one first.
        others: other stages there, the last one first.
    """

    source: Node
    passed: list[Node]
    batch: Batch
    maps: list[Map]
    others: list[Node]


class _Kept(NamedTuple):
    """What becomes of a map.

    Attributes:
        made: the batches whose rows are kept.
        rows: the rows.
        compared: some batches, and the same batches made of rows with other neighbours.
        result: what replaces the map.
    """

    made: Map
    rows: Node
    compared: tuple[Node, Node]
    result: Node


def _below(node: Map) -> _Below | None:
    """Return where rows come from; ``None`` if there is no batch, or if its batches are the same in every epoch."""
    maps: list[Map] = []
    others: list[Node] = []
    stage = node.input
    while True:
        match stage:
            case Batch():
                source, passed = fixed_before_mixing(stage.input)
                mixed_anew = any(isinstance(each, Shuffle) and each.mixes_anew for each in passed)
                return _Below(source, passed, stage, maps, others) if mixed_anew else None
            case Prefetch() | Options():
                others.append(stage)
            case Map(one_for_one_in_order=True) if not changes_between_epochs(stage.fn):
                maps.append(stage)
            case _:
                return None
        stage = stage.input


def _kept(node: Map, below: _Below, parts: tuple[Function, Function] | None) -> _Kept:
    source, passed, batch, maps, others = below

    def made_of(batches: Node) -> Map:
        for each in reversed(maps):
            batches = each.on(batches)
        return replace(node, fn=parts[0] if parts else node.fn, input=batches)

    made = made_of(batch.on(_filling_batches(source, batch)))
    rows: Node = Unbatch(input=made)
    count = signature(source).cardinality
    if count >= 0:
        # TensorFlow no longer knows the number.
        rows = AssertCardinality(input=Take(input=rows, count=count) if batch.drop_remainder else rows, count=count)
    result: Node = Cache(input=rows)
    for stage in (*reversed(passed), batch, *reversed(others)):
        result = stage.on(result)
    endless = Repeat(input=source)
    later = made_of(batch.on(Skip(input=endless, count=_FEW)))
    again = batch.on(Skip(input=Unbatch(input=made_of(batch.on(endless))), count=_FEW))
    some = -(-_ROWS_COMPARED // batch.batch_size)
    compared = Take(input=later, count=some), Take(input=again, count=some)
    return _Kept(made, rows, compared, replace(node, fn=parts[1], input=result) if parts else result)


def _filling_batches(source: Node, batch: Batch) -> Node:
    """Return the elements, filled up so that none is left over if only whole batches are made."""
    count = signature(source).cardinality
    over = count % batch.batch_size
    if not batch.drop_remainder or count < batch.batch_size or not over:
        return source
    return Concatenate(first=source, second=Take(input=source, count=batch.batch_size - over))
