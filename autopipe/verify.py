"""Runs two pipelines and compares what was promised."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from autopipe.errors import VerificationError
from autopipe.functions.parts.draws import undisturbed_generators
from autopipe.functions.subgraph import spec_kind
from autopipe.optimizer import Rewriting
from autopipe.pipeline import ir, trees
from autopipe.pipeline.cache_files import may_write
from autopipe.pipeline.extract import extract
from autopipe.pipeline.repeatable import (
    draws_freely,
    draws_race,
    order_is_free,
    order_is_used,
    varies_by_epoch,
    who_frees_number,
)
from autopipe.pipeline.signature import signature
from autopipe.pipeline.text import stage
from autopipe.planning.costs.own_caches import OwnCaches
from autopipe.rules import Keeps
from autopipe.runtime.digests import EpochDigest, Row, read_epochs

__all__ = ["compare", "verify"]

_EPOCHS_READ = 2
_BATCHING_NOTHING = (
    ir.AssertCardinality | ir.Cache | ir.Concatenate | ir.End | ir.Enumerate | ir.FilesReader | ir.Filter
    | ir.IgnoreErrors | ir.Mapping | ir.Options | ir.Prefetch | ir.Range | ir.Repeat | ir.Shard
    | ir.Shuffle | ir.Skip | ir.Take | ir.TensorSlices | ir.Tensors | ir.ThreadPool | ir.Zip
)  # fmt: skip
_TOLERANCE = 1e-4
# A row may stand this far from its twin when rows are sorted by sums that rounding has moved.
_NEIGHBOURS = 4
_MOST_UNMATCHED = 100
# Fewer rows than these may come in the same order twice by chance.
_ROWS_THAT_DIFFER = 24
_MOST_STANDARD_ERRORS = 6.0
# Before a difference counts, the pipeline as written is run again this many times: two runs may agree by chance.
_RUNS_IN_DOUBT = 4


def compare(
    before: Any, after: Any, keeps: Keeps, *, epochs: int = 2, limit: int = 10_000, seconds: float = math.inf
) -> str | None:
    """Run two datasets and return the first difference that the promise does not allow.

    ``sequence`` compares values bit for bit and in order, each epoch. ``elements`` compares the multiset of each
    epoch, up to the rounding of floats; elements are rows of a batch, so that a batch boundary does not count.
    ``training`` compares the number and types of rows; where epochs of the first differ those of the second
    must, and the means of all numbers must agree within what their spread explains. Where one comes to its end, the
    other must not go on.

    Args:
        before: a ``tf.data.Dataset``.
        after: another.
        keeps: what was promised.
        epochs: how often both are run.
        limit: elements read of each per epoch, at the most. Of an epoch that goes on, ``sequence`` compares the
            beginning, ``elements`` types, and ``training`` also the means of as many rows.
        seconds: time to read each of them.

    Returns:
        ``None`` if the promise is kept, else a sentence.

    >>> import tensorflow as tf
    >>> three = tf.data.Dataset.range(3)
    >>> compare(three, three.shuffle(3, seed=1), Keeps.ELEMENTS) is None
    True
    >>> compare(three, three.skip(1), Keeps.ELEMENTS)
    'epoch 0: 1 elements are lost and 0 are new'
    """
    batched = _may_be_batches(extract(before))
    old, new = (read_epochs(each, epochs, limit, seconds, batched=batched) for each in (before, after))
    return _difference(old, new, keeps) or _epochs_became_one(old, new, keeps)


def verify(rewriting: Rewriting, *, run: Any = None, limit: int = 10_000, seconds: float = 10.0) -> str:
    """Run a pipeline as it was written and as it was rewritten, and compare what was promised.

    What the pipeline does not repeat by itself (an unseeded shuffle does not repeat its order, a random function not
    its values) is not asked of the rewritten one.

    Args:
        rewriting: a rewriting with all its steps.
        run: a dataset that runs the rewritten pipeline, whose iterators are those that training reads; by default, and
            where these would write a ``cache(filename)``, it is built of the pipeline as it stands.
        limit: elements read in each of two epochs, at the most.
        seconds: time for each reading, of which there are three, and more where a difference is found.

    Returns:
        A sentence about what was compared.

    Raises:
        VerificationError: if the promise is broken; the message names the first rule that breaks it.
    """
    reader = _Reader(limit, seconds, batched=_may_be_batches(rewriting.before))
    with undisturbed_generators(trees.functions(rewriting.before)):
        return _verify(rewriting, None if may_write(rewriting.after) else run, reader)


@dataclass(frozen=True)
class _Reader:
    """Reads two epochs: at most ``limit`` elements of each, within ``seconds``; ``batched`` if rows are examples."""

    limit: int
    seconds: float
    batched: bool

    def of(self, tree: ir.Node) -> list[EpochDigest]:
        """Read a pipeline with separate caches: a file that another pipeline wrote has other elements."""
        with OwnCaches(tree) as caches:
            return self.of_dataset(caches.build(tree))

    def of_dataset(self, dataset: Any) -> list[EpochDigest]:
        return read_epochs(dataset, _EPOCHS_READ, self.limit, self.seconds, batched=self.batched)


def _verify(rewriting: Rewriting, run: Any, reader: _Reader) -> str:
    def read_rewritten() -> list[EpochDigest]:
        return reader.of(rewriting.after) if run is None else reader.of_dataset(run)

    kind = _kind_without_values(rewriting.before)
    if kind is not None:
        return f"not compared: elements hold a {kind}, which has no values to compare"
    free = who_frees_number(rewriting.before)
    if free is not None:
        return (
            "not compared: the pipeline may give another number of elements each time, since what "
            f"{stage(free)} leaves out may depend on what is drawn or mixed"
        )
    written = reader.of(rewriting.before)
    rewritten = read_rewritten()
    for runs in (1, _RUNS_IN_DOUBT):
        others = (reader.of(rewriting.before) for _ in range(runs))
        repeats = _seen_to_repeat(_known_to_repeat(rewriting.before), written, others)
        if repeats is None:
            return "not compared: run again as it was written, the pipeline gave elements of another number or kind"
        level = min([repeats, *(step.keeps for step in rewriting.steps)])
        difference = _breach(rewriting.before, written, rewritten, level)
        if difference is not None and level is Keeps.TRAINING:
            # What is drawn may differ by chance, but hardly twice.
            written = reader.of(rewriting.before)
            rewritten = read_rewritten()
            difference = _breach(rewriting.before, written, rewritten, level)
        if difference is None:
            return _account(written, level)
    assert repeats is not None
    culprit = _culprit(rewriting, written, repeats, reader)
    raise VerificationError(
        f'A rewritten pipeline must keep "{level}", but after {culprit} {difference}. Nothing was changed. '
        "Leave that rule out with optimize(rules=...), and report this."
    )


def _breach(tree: ir.Node, written: list[EpochDigest], rewritten: list[EpochDigest], level: Keeps) -> str | None:
    difference = _difference(written, rewritten, level)
    if difference is None and varies_by_epoch(tree):
        difference = _epochs_became_one(written, rewritten, level)
    return difference


def _kind_without_values(tree: ir.Node) -> str | None:
    """Return the type of a part of the elements that is not made of values, as the datasets that ``window`` gives."""
    for part in signature(tree).flat_specs:
        tensors = tf.nest.flatten(part, expand_composites=True)
        if any(tensor.dtype in (tf.variant, tf.resource) for tensor in tensors):
            return spec_kind(part)
    return None


def _account(written: list[EpochDigest], level: Keeps) -> str:
    rows = sum(len(epoch.rows) for epoch in written)
    known = f"{rows:,} rows of {len(written)} epochs compared, keeping {level}"
    if all(epoch.complete for epoch in written):
        return known
    only = "" if level is Keeps.SEQUENCE else ", of which the types are compared"
    return f"{known}, which do not reach the end of an epoch{only}"


def _may_be_batches(tree: ir.Node) -> bool:
    """Return whether a pipeline may batch anything: which rows come together then may differ."""
    return not all(isinstance(node, _BATCHING_NOTHING) for node in trees.walk(tree))


def _culprit(rewriting: Rewriting, written: list[EpochDigest], repeats: Keeps, reader: _Reader) -> str:
    """Return the first rule after which the promise is broken."""
    promised = repeats
    for step in rewriting.steps:
        promised = min(promised, step.keeps)
        if _difference(written, reader.of(step.tree), promised):
            return step.rule
    return "all its rules together"


def _known_to_repeat(tree: ir.Node) -> Keeps:
    """Return the most that any two runs of a pipeline agree on, as its stages tell."""
    if draws_freely(tree) or draws_race(tree):
        return Keeps.TRAINING
    if not order_is_free(tree):
        return Keeps.SEQUENCE
    return Keeps.TRAINING if order_is_used(tree) else Keeps.ELEMENTS


def _seen_to_repeat(known: Keeps, once: list[EpochDigest], others: Iterable[list[EpochDigest]]) -> Keeps | None:
    """Return the most that runs of a pipeline agree on, if anything; it may hold what autopipe cannot look into."""
    levels = [level for level in reversed(Keeps) if level <= known]
    for again in others:
        levels = [level for level in levels if not _difference(once, again, level)]
    return levels[0] if levels else None


def _difference(before: Sequence[EpochDigest], after: Sequence[EpochDigest], keeps: Keeps) -> str | None:
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        difference = _error(old, new, keeps) or _EPOCHS[keeps](old, new)
        if difference:
            return f"epoch {number}: {difference}"
        if old.error:
            # It ends the training; what a reader finds who goes on is the runtime's concern, not the tree's.
            return None
    return _distributions_differ(before, after) if keeps is Keeps.TRAINING else None


def _error(old: EpochDigest, new: EpochDigest, keeps: Keeps) -> str | None:
    """Return how errors differ: a new one counts, and one that is gone where the sequence was promised."""
    if new.error and not old.error:
        return f"an element now fails ({new.error.splitlines()[0][:120]})"
    if old.error and new.complete and keeps is Keeps.SEQUENCE:
        return "an element that failed no longer does"
    return None


def _sequence(old: EpochDigest, new: EpochDigest) -> str | None:
    if _numbers_differ(old, new, len(old.elements), len(new.elements)):
        return f"{len(old.elements)} elements became {len(new.elements)}"
    for position, (ours, theirs) in enumerate(zip(old.elements, new.elements, strict=False)):
        if ours != theirs:
            return f"element {position} differs"
    return None


def _numbers_differ(old: EpochDigest, new: EpochDigest, ours: int, theirs: int) -> bool:
    """Return whether one came to its end with fewer than were read of the other."""
    return (old.complete and theirs > ours) or (new.complete and ours > theirs)


def _elements(old: EpochDigest, new: EpochDigest) -> str | None:
    if not (old.complete and new.complete):
        return _form(old, new)
    missing, fresh = _by_what_is_exact(old.rows), _by_what_is_exact(new.rows)
    lost = [_unmatched(rows, fresh.get(key, [])) for key, rows in missing.items()]
    added = [_unmatched(rows, missing.get(key, [])) for key, rows in fresh.items()]
    if not any((*lost, *added)):
        return None
    at_least = "at least " if max((*lost, *added)) >= _MOST_UNMATCHED else ""
    return f"{at_least}{sum(lost)} elements are lost and {at_least}{sum(added)} are new"


def _by_what_is_exact(rows: Sequence[Row]) -> dict[bytes, list[Row]]:
    groups: dict[bytes, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.exact].append(row)
    return {key: sorted(group, key=lambda row: float(row.sums.sum())) for key, group in groups.items()}


def _unmatched(rows: list[Row], others: list[Row]) -> int:
    """Return how many rows have no twin among others, both sorted by their sums; no more than tell that they differ.

    Each that has none is compared with the more others, the more there were before it.
    """
    if not rows[0].sums.size:
        return min(max(len(rows) - len(others), 0), _MOST_UNMATCHED)
    free = [True] * len(others)
    unmatched = 0
    for place, row in enumerate(rows):
        near = range(max(0, place - _NEIGHBOURS - unmatched), min(len(others), place + _NEIGHBOURS + unmatched + 1))
        twin = next((each for each in near if free[each] and row.like(others[each], _TOLERANCE)), None)
        if twin is not None:
            free[twin] = False
            continue
        unmatched += 1
        if unmatched == _MOST_UNMATCHED:
            break
    return unmatched


def _form(old: EpochDigest, new: EpochDigest) -> str | None:
    if _numbers_differ(old, new, len(old.rows), len(new.rows)):
        return f"{len(old.rows)} rows became {len(new.rows)}"
    if old.complete and new.complete:
        return None if Counter(old.forms) == Counter(new.forms) else "the types of rows changed"
    if old.forms and new.forms and not set(old.forms) & set(new.forms):
        return "the types of rows changed"
    return None


_EPOCHS = {Keeps.SEQUENCE: _sequence, Keeps.ELEMENTS: _elements, Keeps.TRAINING: _form}


def _distributions_differ(before: Sequence[EpochDigest], after: Sequence[EpochDigest]) -> str | None:
    columns = zip(*(zip(*each, strict=False) for each in _means(before, after)), strict=False)
    for position, (ours, theirs) in enumerate(columns):
        gap = abs(statistics.fmean(ours) - statistics.fmean(theirs))
        if len(ours) > 1 and len(theirs) > 1 and gap > _most_by_chance(ours, theirs):
            return (
                f"the mean of component {position} was {statistics.fmean(ours):.4g} "
                f"and is {statistics.fmean(theirs):.4g}, which chance does not explain"
            )
    return None


def _epochs_became_one(before: Sequence[EpochDigest], after: Sequence[EpochDigest], keeps: Keeps) -> str | None:
    if keeps is Keeps.TRAINING and _differs_by_epoch(before) and not _differs_by_epoch(after):
        return "epochs that differed are now the same"
    return None


def _means(before: Sequence[EpochDigest], after: Sequence[EpochDigest]) -> Iterator[list[tuple[float, ...]]]:
    """Yield the means of the rows of both, of as many of each epoch: later ones may be of another kind."""
    read = [min(len(old.means), len(new.means)) for old, new in zip(before, after, strict=True)]
    for epochs in (before, after):
        yield [row for epoch, count in zip(epochs, read, strict=True) for row in epoch.means[:count]]


def _differs_by_epoch(epochs: Sequence[EpochDigest]) -> bool:
    if len(epochs) < 2 or min(len(epoch.rows) for epoch in epochs) < _ROWS_THAT_DIFFER:
        return False
    return epochs[0].elements != epochs[1].elements


def _most_by_chance(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the gap between two means that their spread explains; of few rows, the spread is hardly known."""
    spread = math.sqrt(sum(statistics.pvariance(each) / max(len(each) - 2, 1) for each in (ours, theirs)))
    size = max(map(abs, (*ours, *theirs)))
    return _MOST_STANDARD_ERRORS * spread + _TOLERANCE * size + 1e-6
