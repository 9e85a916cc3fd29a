"""The dataset that ``optimize()`` returns: a ``tf.data.Dataset`` whose knobs can change while it is read.

A private attribute of TensorFlow is read and written here, ``Dataset._variant_tensor``.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import tensorflow as tf

from autopipe.optimizer import Rewriting
from autopipe.pipeline import ir, trees
from autopipe.pipeline.knobs import knob_values, with_knobs
from autopipe.planning.disk.disk_cache import DiskCache
from autopipe.planning.memory.freed import FreedMemory
from autopipe.planning.plans.plan import Plan
from autopipe.report.explanation import Explanation
from autopipe.runtime.caches.filling import begins_with_all, fills_at_once, looked_at
from autopipe.runtime.caches.lost_elements import may_leave_out, read_otherwise, reads_further_ahead
from autopipe.runtime.caches.stores import Stores
from autopipe.runtime.caches.tables import Tables
from autopipe.runtime.derived import Followable, Followed, built_after
from autopipe.runtime.iterators import Iterators
from autopipe.runtime.readings import Reading, Stages, observers, tree_after
from autopipe.runtime.repoint import with_own_state, with_seed_generators_of
from autopipe.runtime.unobserved import derived_from, may_start_early

__all__ = ["OptimizedDataset"]


class OptimizedDataset(Followable):
    """A rewritten pipeline. It is used as any ``tf.data.Dataset``, and undone by ``.original``.

    Attributes:
        original: the dataset as it was given to ``optimize()``.
    """

    def __init__(
        self,
        original: Any,
        rewriting: Rewriting,
        plan: Plan,
        disk: DiskCache | None = None,
        freed: FreedMemory | None = None,
    ) -> None:
        for name, value in vars(original).items():
            # Attributes that others put there, as Keras does class_names, but none of another optimized dataset.
            if not name.startswith("_") and name != "optimized" and not hasattr(OptimizedDataset, name):
                setattr(self, name, value)
        self.original = original
        self._freed = freed
        self._rewriting = rewriting
        self._plan = plan
        self._given = rewriting.tunable
        tree = with_knobs(self._given, plan.knobs)
        self._autopipe_tree = trees.transform(tree, with_own_state)
        self._tables = Tables(self._autopipe_tree)
        self._stores = Stores(tree, disk, guarded=may_leave_out(rewriting))
        if read_otherwise(rewriting) or reads_further_ahead(tree, self._given):
            self._stores.guard()
        self._iterators = Iterators(self._stores)
        self._offered: Callable[[], Any] = _gone
        self._tried_next: ir.Node | None = None
        self._lock = threading.Lock()
        self._derived = self._stores.derived_memories(())
        self._built = self._stores.build(derived_from(self._autopipe_tree), self._derived)
        super().__init__(self._built._variant_tensor)

    @property
    def _variant_tensor(self) -> Any:
        """Derived datasets read the caches that are full by now: all readers then see the same order."""
        if self._stores.has_memories and tf.compat.v1.executing_eagerly_outside_functions():
            with tf.init_scope(), self._lock:
                derived = self._stores.derived_memories(self._iterators.memories_in_use())
                if derived is not self._derived:
                    self._rebuild(self._autopipe_tree)
        return self._variant_tensor_attr

    def _inputs(self) -> list[Any]:
        # TensorFlow takes the options from here, and this keeps what the original holds alive: the user's captures too.
        return [self.original]

    @property
    def _following(self) -> tuple[Followed, Stages]:
        return self, ()

    @property
    def element_spec(self) -> Any:
        """The structure of one element, as in the original."""
        return self.original.element_spec

    def __iter__(self) -> Any:
        return self.iterator() if tf.executing_eagerly() else super().__iter__()

    def iterator(self, after: Stages = ()) -> Any:
        """Return an iterator over this dataset with stages after it; :meth:`retune` changes it like any other."""
        with self._lock:
            iterator, reading = self._take_offered(after) or self._start(after, early=False)
        reading.taker.is_here()
        for observer in observers():
            observer.reading_started(reading)
        return iterator

    def waits_for_caches(self) -> bool:
        """Return whether the first element of a derived dataset waits for many elements that caches will hold."""
        if fills_at_once(self.written):
            # As written it waits too, once; and the caches it fills then serve the training that follows.
            return False
        with self._lock:
            full = self._stores.has_full_memories(self._iterators.memories_in_use())
        return not full and looked_at(self._autopipe_tree) is not self._autopipe_tree

    @property
    def written(self) -> ir.Node:
        """The pipeline as it was written."""
        return self._rewriting.before

    @property
    def begins_with_all(self) -> bool:
        """Whether the first element of a derived dataset fills its caches."""
        return begins_with_all(self._autopipe_tree)

    def look(self, after: Stages = ()) -> Any:
        """Return an iterator that fills no cache, does not wait until caches are full, and is hidden from observers.

        Args:
            after: stages after this dataset, as for :meth:`iterator`.
        """
        with self._lock:
            tree = looked_at(derived_from(self._autopipe_tree))
            dataset = built_after(self._stores.build_apart(tree), after)
        dataset._autopipe_owner = (self.original, tree)
        return iter(dataset)

    def start_early(self, after: Stages = ()) -> Any:
        """Start an iterator whose buffers fill while another is still being read; for :meth:`offer`, later.

        Args:
            after: stages after this dataset, as for :meth:`iterator`.

        Returns:
            The iterator; ``None`` if an early start could be noticed (Python code, a variable), if a cache is not full,
            if a seeded shuffle would go on with another order should it never be read, or if files are read that
            may change, as they may with ``keeps="sequence"``.

        >>> import tensorflow as tf, autopipe
        >>> dataset = autopipe.optimize(tf.data.Dataset.range(4).shuffle(4))
        >>> iterator = dataset.start_early()
        >>> dataset.offer(iterator)
        >>> iter(dataset) is iterator, iter(dataset) is iterator
        (True, False)
        """
        with self._lock:
            if not self._may_start_early(after):
                return None
            iterator, reading = self._start(after, early=True)
            reading.handed_out = False
        return iterator

    def offer(self, iterator: Any) -> None:
        """Return an iterator of :meth:`start_early` from the next ``iter()``, if the caller still holds it then.

        This does nothing once it was handed out, or if its knobs are no longer those of the dataset.
        """
        self._offered = _gone if iterator is None else weakref.ref(iterator)

    def explain(self) -> Explanation:
        """Return what was done and why that is safe, and what was refused and why; printed, it is a report."""
        return Explanation(self._rewriting, self.plan, freed=self._freed)

    @property
    def tree(self) -> ir.Node:
        """The pipeline as it runs now."""
        return self._autopipe_tree

    @property
    def caches_are_full(self) -> bool:
        """Whether all that it keeps in memory is there, or nearly all if epochs differ."""
        return self._stores.memories_are_full and self._tables.are_full

    @property
    def caches_are_filled(self) -> bool:
        """Whether what it keeps in memory has stopped growing; an element that failed may be missing from it."""
        return self._stores.memories_are_filled and self._tables.are_full

    def results_have_settled(self, given: int) -> bool:
        """Return whether its memoized maps make hardly any new results by now. Call it again and again.

        Args:
            given: how many elements the iterator that fills them has given.
        """
        return self._tables.have_settled(given) or self._tables.are_full

    @property
    def must_end(self) -> bool:
        """Whether its caches serve no other iterator until one reaches its end, which alone shows that none failed."""
        return self._stores.must_end

    @property
    def plan(self) -> Plan:
        """The rules applied and the knobs as they are now."""
        return replace(self._plan, knobs=self.knobs)

    @property
    def knobs(self) -> dict[str, int]:
        """The numbers that :meth:`retune` can change; -1 is AUTOTUNE."""
        return knob_values(self._autopipe_tree)

    def retune(self, knobs: Mapping[str, int]) -> None:
        """Change knobs, at once, also under an iterator that is being read.

        Every element is still yielded exactly once per epoch, and what a memory cache holds is kept. Call it between
        two elements, from the thread that takes them: iterators that other threads read go on as they are.

        A knob that is not ``live``, such as the cycle of an interleave, changes from the next iterator on. So do all
        knobs of an iterator that cannot be changed. TensorFlow cannot save the state of a generator or of a seeded
        random function, a half-written cache file, or a memory cache that is read at two places. It does not restore
        ``sample_from_datasets`` or CSV files with a header as they were. More than 20,000 elements in memory caches and
        shuffle buffers take it too long. And an iterator that reads further ahead could fill a cache that lacks a
        failed element, if the number of elements is unknown.

        Args:
            knobs: values by the names in :attr:`knobs`; the others stay.

        Raises:
            KnobError: for an unknown knob or a value outside its range; nothing is changed then.

        >>> import tensorflow as tf, autopipe
        >>> dataset = autopipe.optimize(tf.data.Dataset.range(6).map(lambda x: x * 10), seconds=0)
        >>> iterator = iter(dataset)
        >>> first = next(iterator)
        >>> dataset.retune({"prefetch.buffer_size": 3})
        >>> [int(x) for x in iterator]
        [10, 20, 30, 40, 50]
        """
        with self._lock:
            self._set_knobs(knobs)
            for reading in self._iterators.live():
                self._change(reading, self._autopipe_tree)

    def retune_next(self, knobs: Mapping[str, int]) -> None:
        """Change knobs as :meth:`retune` does, but from the next iterator on: those being read go on as they are.

        Args:
            knobs: values by the names in :attr:`knobs`; the others stay.

        Raises:
            KnobError: as :meth:`retune`.

        >>> import tensorflow as tf, autopipe
        >>> dataset = autopipe.optimize(tf.data.Dataset.range(4).map(lambda x: x * 10), seconds=0)
        >>> dataset.retune_next({"prefetch.buffer_size": 3})
        >>> [int(x) for x in dataset], dataset.knobs["prefetch.buffer_size"]
        ([0, 10, 20, 30], 3)
        """
        with self._lock:
            self._set_knobs(knobs)

    def _set_knobs(self, knobs: Mapping[str, int]) -> None:
        tree = self._with_knobs(knobs)
        self._tried_next = None
        if tree != self._autopipe_tree:
            self._rebuild(tree)

    def _with_knobs(self, knobs: Mapping[str, int]) -> ir.Node:
        tree = with_knobs(self._autopipe_tree, knobs)
        if reads_further_ahead(tree, self._given):
            self._stores.guard()
        return tree

    def _rebuild(self, tree: ir.Node) -> None:
        self._autopipe_tree = tree
        self._derived = self._stores.derived_memories(self._iterators.memories_in_use())
        self._built = self._stores.build(derived_from(tree), self._derived)
        self._variant_tensor_attr = self._built._variant_tensor

    def try_out(self, reading: Reading, knobs: Mapping[str, int]) -> None:
        """Change knobs of one iterator, as :meth:`retune` does; the dataset, and its next iterators, keep theirs.

        Args:
            reading: the iterator.
            knobs: values by the names in :attr:`knobs`; the others are those of the dataset.

        Raises:
            KnobError: as :meth:`retune`.
        """
        with self._lock:
            self._change(reading, self._with_knobs(knobs))

    def try_out_next(self, knobs: Mapping[str, int]) -> None:
        """Start the next iterator, and that one only, with other knobs; the dataset keeps its own.

        :meth:`retune` cancels this.

        Args:
            knobs: values by the names in :attr:`knobs`; the others are those of the dataset.

        Raises:
            KnobError: as :meth:`retune`.

        >>> import tensorflow as tf, autopipe
        >>> dataset = autopipe.optimize(tf.data.Dataset.range(4).map(lambda x: x * 10), seconds=0)
        >>> dataset.try_out_next({"prefetch.buffer_size": 3})
        >>> [int(x) for x in dataset], dataset.knobs["prefetch.buffer_size"]
        ([0, 10, 20, 30], -1)
        """
        with self._lock:
            self._tried_next = self._with_knobs(knobs)

    def _start(self, after: Stages, *, early: bool) -> tuple[Any, Reading]:
        tree = self._autopipe_tree
        if self._tried_next is not None and not early:
            tree, self._tried_next = self._tried_next, None
        self._tables.note_start()
        return self._iterators.start(self, tree, self._built, after, early=early)

    def _take_offered(self, after: Stages) -> tuple[Any, Reading] | None:
        iterator = self._offered()
        reading = next((each for each in self._iterators.live() if each.iterator() is iterator), None)
        if reading is not None and reading.after != after:
            # An iterator with other stages leaves it to the next one.
            return None
        self._offered = _gone
        if iterator is None or reading is None or reading.handed_out or reading.knobs != self.knobs:
            return None
        reading.handed_out = True
        return iterator, reading

    def _may_start_early(self, after: Stages) -> bool:
        tree = tree_after(self._autopipe_tree, after)
        files_may_change = self._plan.keeps == "sequence"
        if not self._stores.files_are_whole or not may_start_early(tree, files_may_change=files_may_change):
            return False
        return not self._stores.has_memories or self._stores.has_full_memories(self._iterators.memories_in_use())

    def _change(self, reading: Reading, tree: ir.Node) -> None:
        drawn_from = self._iterators.change(reading, tree)
        if drawn_from is None:
            return
        # An endless iterator leaves the seeds in its own generators: the next ones draw their orders from those.
        self._iterators.ready.clear()
        self._rebuild(with_seed_generators_of(drawn_from, self._autopipe_tree))
        if self._tried_next is not None:
            self._tried_next = with_seed_generators_of(drawn_from, self._tried_next)


def _gone() -> None:
    """Stand in for a dead reference."""
