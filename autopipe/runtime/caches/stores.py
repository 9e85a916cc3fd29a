"""Where the caches of an optimized dataset keep their elements: those that iterators share, and those of each."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build, memory_caches
from autopipe.pipeline.disk_caches import caches_on_disk, with_files
from autopipe.pipeline.order import kept_in_order
from autopipe.planning.disk.disk_cache import DiskCache, is_out_of_room
from autopipe.runtime.caches.filling import keeping_nothing
from autopipe.runtime.caches.full_pass import taken_in_a_pass
from autopipe.runtime.caches.memories import Memories

__all__ = ["Stores"]


class Stores:
    """The memories and the files of a pipeline's caches. Iterators share what is full; before, each fills its own.

    Args:
        tree: the pipeline.
        disk: where the files are; ``None`` if it has no disk caches.
        guarded: whether only an iterator that is read to its end may fill memories; see
            :func:`autopipe.runtime.caches.lost_elements.may_leave_out`.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> tree = extract(tf.data.Dataset.range(3).cache())
    >>> stores = Stores(tree, None, guarded=False)
    >>> first = stores.next_memories(())
    >>> stores.next_memories([first]) is first
    False
    >>> [int(x) for x in stores.build(tree, first)], stores.next_memories([first]) is first
    ([0, 1, 2], True)
    """

    def __init__(self, tree: ir.Node, disk: DiskCache | None, *, guarded: bool) -> None:
        self._tree = tree
        self._disk = disk
        self._guarded = guarded
        self._memories = self.empty_memories()
        self._before: list[weakref.ref[Memories]] = []
        self._derived = self.empty_memories()
        self._as_written: Memories | None = None
        self._filled_in_vain = False
        self._begun = False
        self._disk_is_full = False
        self._stopped: OSError | None = None
        self._files = tuple(disk.filename(cache.input) for cache in caches_on_disk(tree)) if disk else ()

    def empty_memories(self) -> Memories:
        """Return new ones, which no iterator uses yet."""
        return Memories(self._tree, guarded=self._guarded)

    @cached_property
    def no_memories(self) -> Memories:
        """Those of an iterator that keeps nothing."""
        return Memories(keeping_nothing(self._tree))

    def memories_as_written(self, written: ir.Node) -> Memories:
        """Return those of iterators over the pipeline as it was written, until its own caches are full."""
        if self._as_written is None:
            self._as_written = Memories(written)
        return self._as_written

    def build(self, tree: ir.Node, memories: Memories, files: Sequence[str] = ()) -> Any:
        """Make the dataset of a pipeline with the same caches, whatever its knobs.

        Args:
            tree: the pipeline.
            memories: where its memory caches keep their elements.
            files: where its disk caches do.
        """
        return memories.build(kept_in_order(with_files(tree, files)))

    def build_apart(self, tree: ir.Node) -> Any:
        """Make the dataset of a pipeline that shares nothing with others, and keeps nothing, for one pass over a part.

        Args:
            tree: the pipeline.
        """
        return build(kept_in_order(with_files(keeping_nothing(tree), ())))

    def guard(self) -> None:
        """From now on, let only an iterator that is read to its end fill memories; those that fill some already go on.

        This does nothing where no iterator has an end and the number of elements is unknown: every iterator would then
        fill them anew.
        """
        endless = (node for node in trees.walk(self._tree) if isinstance(node, ir.Repeat) and node.is_infinite)
        nobody_ends = any(memory_caches(node) for node in endless)
        self._guarded = self._guarded or not nobody_ends or self._memories.can_count

    def is_unguarded(self, memories: Memories) -> bool:
        """Return whether memories are filled as before :meth:`guard`."""
        return self._guarded and not memories.guarded and not memories.full

    @property
    def has_memories(self) -> bool:
        """Whether the pipeline has a memory cache."""
        return bool(self._memories.caches)

    @property
    def memories_are_full(self) -> bool:
        """Whether its memory caches hold all they will."""
        return self._memories.full

    @property
    def memories_are_filled(self) -> bool:
        """Whether its memory caches take no more elements; one that failed may be missing."""
        return self._memories.are_filled

    def has_full_memories(self, in_use: Sequence[Memories]) -> bool:
        """Return whether the next iterator would read memories that are full.

        Args:
            in_use: those of the other iterators.
        """
        return self._full(*in_use, self._derived) is not None

    @property
    def filled_in_vain(self) -> bool:
        """Whether an iterator filled memories that serve no other iterator, since they are not known to be whole."""
        return self._filled_in_vain

    @property
    def must_end(self) -> bool:
        """Whether only the end of an iterator shows that its caches are whole."""
        return self._memories.must_end or bool(self._files)

    def next_memories(self, in_use: Sequence[Memories]) -> Memories:
        """Return the memories of the next iterator: those that are full, or that no other iterator fills.

        Args:
            in_use: those of the other iterators.
        """
        before = [each for each in (self._memories, *(known() for known in self._before)) if each is not None]
        for each in before:
            if each not in in_use:
                each.await_readers()
        full = self._full(*in_use, self._derived)
        if full is not None:
            # No other copy of these elements is needed.
            self._memories, self._as_written = full, None
        elif self._memories in in_use or self._will_lack_elements():
            # Keras makes the iterator of the next epoch while it holds the last one, whose end shows only later.
            self._filled_in_vain = self._filled_in_vain or self._memories.some_are_filled
            self._before = [weakref.ref(each) for each in before if each in in_use]
            self._memories = self.empty_memories()
        self._begun = True
        return self._memories

    def derived_memories(self, in_use: Sequence[Memories]) -> Memories:
        """Return the memories for derived datasets: those that are full, or separate ones.

        Iterators over derived datasets are not known here. While they fill memories, no other iterator may. Where one
        of them read on after an element that failed, and the number of elements shows it, later ones get new memories.

        Args:
            in_use: those of the iterators that are known.
        """
        useless = self._derived.lack_elements or self.is_unguarded(self._derived)
        self._derived = self._full(*in_use) or (self.empty_memories() if useless else self._derived)
        return self._derived

    def is_derived(self, memories: Memories) -> bool:
        """Return whether iterators that are not known may read them."""
        return memories is self._derived

    def _will_lack_elements(self) -> bool:
        """Return whether memories may lack elements once they are full.

        The prefetch of an iterator may outlive its consumer, and go on after an element that failed.
        """
        left_filling = self._begun and self._memories.guarded and not self._memories.may_be_filled_again
        return left_filling or self.is_unguarded(self._memories)

    def _full(self, *others: Memories) -> Memories | None:
        return next((each for each in (self._memories, *others) if each.full), None) if self.has_memories else None

    def succeed(self, memories: Memories, successor: Memories) -> None:
        """Replace ``memories``, for the next iterators, by a successor that holds the same."""
        self._before = [weakref.ref(successor) if known() is memories else known for known in self._before]
        if self._memories is memories:
            self._memories = successor

    def adopt(self, memories: Memories, restored: Memories) -> None:
        """Give later iterators the restored memories in place of ``memories``, unless they read full ones already."""
        if restored.caches and restored.full and not self._memories.full:
            self._memories = restored
        self.succeed(memories, restored)

    def next_files(self, in_use: Collection[str] = (), filling: Collection[Memories] = ()) -> tuple[str, ...]:
        """Return the file of each disk cache: the one that is whole, or a new one that no other iterator writes.

        Args:
            in_use: those of the other iterators.
            filling: the memories of the other iterators: one that is still referenced is not asked for its end.

        Returns:
            No files, with a warning, if the folder cannot be written to any more: elements then bypass its caches. Once
            the disk is full, they do so for good, and the files that were begun are removed.
        """
        if self._disk is None or self._disk_is_full:
            return ()
        if not self.files_are_whole and self._memories not in filling:
            self._memories.await_answers(lambda: self._are_written(self._files))
        try:
            if self._stopped is not None and not self.files_are_whole:
                raise self._stopped
            self._files = tuple(map(self._disk.again, self._files))
        except OSError as error:
            folder = os.fspath(self._disk.folder)
            self._disk_is_full = is_out_of_room(error)
            for file in self._files if self._disk_is_full else ():
                if file not in in_use and not self._disk.holds(file):
                    self._disk.remove(file)
            warnings.warn(
                f"The folder of a disk cache must stay writable, but {folder!r} is not any more "
                f"({error.strerror}). Training goes on without this cache.",
                stacklevel=2,
            )
            return ()
        return self._files

    @property
    def files_are_whole(self) -> bool:
        """Whether nothing is left to write into the files of the last iterator."""
        return self.are_whole(self._files)

    def are_whole(self, files: tuple[str, ...]) -> bool:
        """Return whether nothing is left to write into these files."""
        return self._disk is None or all(map(self._disk.holds, files))

    def note_answer(self, memories: Memories) -> None:
        """Note that an iterator that was asked for its end is gone: the memories it filled may serve others now."""
        if memories.caches and memories.full and not self._memories.full:
            self._memories = memories

    def need_be_told(self, memories: Memories, files: Sequence[str]) -> bool:
        """Return whether only the end of their reader can show that memories or files are whole."""
        return memories.must_end or (self._disk is not None and not all(map(self._disk.counts_tell, files)))

    def note_end(self, memories: Memories, files: Sequence[str]) -> None:
        """Note, in a graph, that an iterator came to its end, while it fills one of them."""
        memories.note_end()
        if self._disk is not None:
            self._disk.note_end(files)

    def note_taken(self, tree: ir.Node, memories: Memories, files: Sequence[str], given: int) -> None:
        """Note how many elements a consumer got of a pipeline without end, if that shows that caches are whole.

        No element must have failed.
        """
        if not memories.are_filled or not self._are_written(files) or len(files) < len(caches_on_disk(tree)):
            return
        on_disk = [self._disk.number_written(file) for file in files] if self._disk is not None else []
        known = [number for number in on_disk if number is not None]
        if len(known) < len(on_disk):
            return
        enough = taken_in_a_pass(tree, memories.counts, known)
        if enough is not None and given >= enough:
            self.note_end(memories, files)

    def _are_written(self, files: Sequence[str]) -> bool:
        """Return whether they are written and closed; an element that failed may be missing."""
        return self._disk is None or all(map(self._disk.is_written, files))

    def note_gone(self, files: tuple[str, ...]) -> None:
        """Note a full disk before the iterator that writes these files is gone: its files go with it."""
        if self._disk is not None and self._stopped is None:
            self._stopped = next(filter(None, map(self._disk.what_stops, files)), None)
