"""The dataset that ``optimize()`` returns: a ``tf.data.Dataset`` whose knobs can change while it is read.

A private attribute of TensorFlow is read and written here, ``Dataset._variant_tensor``.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import tensorflow as tf

from autopipe.functions.known.effects import effects
from autopipe.optimizer import Rewriting
from autopipe.pipeline import ir, trees
from autopipe.pipeline.knobs import knob_values, read_knobs, with_knobs, with_thread_pool
from autopipe.pipeline.seeds import repeats_a_seeded_shuffle
from autopipe.planning.disk.disk_cache import DiskCache
from autopipe.planning.memory.freed import FreedMemory
from autopipe.planning.plans.plan import Plan
from autopipe.report.explanation import Explanation
from autopipe.rules import Keeps
from autopipe.runtime.checkpoints import save_without_tables
from autopipe.runtime.disposal import dispose_aside
from autopipe.runtime.ending import number_taken, telling_its_end
from autopipe.runtime.following import Followable, Followed, built_after
from autopipe.runtime.memories import Memories, may_leave_out
from autopipe.runtime.reading import Reading, Stages, observers, tree_after
from autopipe.runtime.ready import ReadyPipeline, ReadyPipelines, filling_at_once, while_filling, with_files
from autopipe.runtime.repoint import (
    MOST_HELD,
    has_large_buffer,
    repoint,
    state_of,
    waits_for_next_epoch,
    with_new_seed_generator,
    with_own_state,
    with_seed_generators_of,
)
from autopipe.runtime.stores import Stores
from autopipe.runtime.tables import Tables
from autopipe.runtime.unseen import derived_from, may_end_aside, may_start_early
from autopipe.telemetry.stall import StallCounter, metered

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
            # Others have put it there, as Keras does class_names.
            if not name.startswith("_") and not hasattr(OptimizedDataset, name):
                setattr(self, name, value)
        self.original = original
        self._freed = freed
        self._rewriting = rewriting
        self._plan = plan
        tree = with_knobs(with_thread_pool(rewriting.after), plan.knobs)
        self._autopipe_tree = trees.transform(tree, with_own_state)
        self._tables = Tables(self._autopipe_tree)
        self._stores = Stores(tree, disk, guarded=may_leave_out(rewriting))
        self._holds_much = False
        # Iterators hold their readings, and those this dataset: it is gone with the last of them, and its memories too.
        self._readings: list[Callable[[], Reading | None]] = []
        self._ready = ReadyPipelines()
        self._offered: Callable[[], Any] = _gone
        self._tried_next: ir.Node | None = None
        self._lock = threading.Lock()
        self._derived = self._stores.derived_memories(())
        self._built = self._derived.build(derived_from(self._autopipe_tree))
        super().__init__(self._built._variant_tensor)

    @property
    def _variant_tensor(self) -> Any:
        """What is derived from here reads what is full by now: a cached order is the same in all that read it."""
        if self._stores.has_memories and tf.compat.v1.executing_eagerly_outside_functions():
            with tf.init_scope(), self._lock:
                derived = self._stores.derived_memories(self._memories_in_use())
                if derived is not self._derived:
                    self._rebuild(self._autopipe_tree)
        return self._variant_tensor_attr

    def _inputs(self) -> list[Any]:
        # TensorFlow takes the options from here, and what is held here stays alive: the user's captures too.
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
        """Return an iterator over this dataset with stages after it; :meth:`retune` changes it as any other."""
        with self._lock:
            iterator, reading = self._take_offered(after) or self._start(after, early=False)
        reading.taker.is_here()
        for observer in observers():
            observer.reading_started(reading)
        return iterator

    def start_early(self, after: Stages = ()) -> Any:
        """Start an iterator whose buffers fill while another is still being read; for :meth:`offer`, later.

        Args:
            after: stages after this dataset, as for :meth:`iterator`.

        Returns:
            The iterator; ``None`` where somebody would notice (Python code, a variable), where a cache is not full, and
            where a shuffle with a seed would go on with another order, should nobody read it, and the sequence is kept.

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
        """Give an iterator of :meth:`start_early` to whoever asks for one next, as long as the caller holds it.

        Once it was handed out, and where its knobs are not those of the dataset any more, this does nothing.
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
        """Whether what it keeps in memory is there, or nearly all of it where epochs differ."""
        return self._stores.memories_are_full and self._tables.are_full

    @property
    def must_end(self) -> bool:
        """Whether its caches serve no other iterator until one comes to its end: only that tells that none failed."""
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

        Every element is still yielded exactly once per epoch, and what a memory cache holds is kept. To be called
        between two elements, from the thread that takes them: iterators that others read go on as they are.

        A knob that is not ``live``, such as the cycle of an interleave, changes from the next iterator on. So do all
        where an iterator cannot be changed: TensorFlow cannot save a generator's state, that of a seeded random
        function, a cache file half written, or a memory cache that is read at two places; it does not restore
        ``sample_from_datasets``, nor CSV files with a header, as they were; and more than 20,000 elements in memory
        caches and shuffle buffers take it too long.

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
            for reading in self._live():
                self._change_between_elements(reading, self._autopipe_tree)

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
        tree = with_knobs(self._autopipe_tree, knobs)
        self._tried_next = None
        if tree != self._autopipe_tree:
            self._rebuild(tree)

    def _rebuild(self, tree: ir.Node) -> None:
        self._autopipe_tree = tree
        self._derived = self._stores.derived_memories(self._memories_in_use())
        self._built = self._derived.build(derived_from(tree))
        self._variant_tensor_attr = self._built._variant_tensor

    def try_out(self, reading: Reading, knobs: Mapping[str, int]) -> None:
        """Change knobs of one iterator, as :meth:`retune` does; the dataset, and its next iterators, keep theirs.

        Args:
            reading: the iterator.
            knobs: values by the names in :attr:`knobs`; the others are those of the dataset.

        Raises:
            KnobError: as :meth:`retune`.
        """
        tree = with_knobs(self._autopipe_tree, knobs)
        with self._lock:
            self._change_between_elements(reading, tree)

    def try_out_next(self, knobs: Mapping[str, int]) -> None:
        """Start the next iterator, and that one only, with other knobs; the dataset keeps its own.

        :meth:`retune` takes it back.

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
        tree = with_knobs(self._autopipe_tree, knobs)
        with self._lock:
            self._tried_next = tree

    def _start(self, after: Stages, *, early: bool) -> tuple[Any, Reading]:
        tree = self._autopipe_tree
        if self._tried_next is not None and not early:
            tree, self._tried_next = self._tried_next, None
        self._tables.note_start()
        written_by_others = [file for each in self._live() for file in each.files]
        files, memories = (
            self._stores.next_files(written_by_others),
            self._stores.next_memories(self._memories_in_use()),
        )
        writes = not self._stores.are_whole(files)
        taken = number_taken() if writes or memories.watches else None
        filling = while_filling(tree, after)
        fills = filling is not tree and not memories.full
        reading = Reading(self, after, knob_values(tree), memories, taken, files, writes, fills=fills)
        tree = filling if fills else tree
        ready = None
        if taken is None:
            in_use = (tree, self._autopipe_tree)
            ready = self._ready.one_for(reading, tree, in_use, early=early, metered=bool(observers()))
        if ready is None:
            ready = self._make(tree, reading, early=early)
        iterator = iter(ready.pipeline)
        ready.iterator = reading.iterator = weakref.ref(iterator)
        reading.stall = ready.stall
        if self._ends_aside(after):
            dispose_aside(iterator)
        save_without_tables(iterator, reading.tree)
        reading.taker.take_note(iterator)
        iterator._autopipe_reading = reading
        self._readings = [weakref.ref(each) for each in (*self._live(), reading)]
        return iterator, reading

    def _make(self, tree: ir.Node, reading: Reading, *, early: bool) -> ReadyPipeline:
        stall = StallCounter() if observers() else None
        files, memories = reading.files, reading.memories
        plain = derived_from(tree) is self._autopipe_tree and not files and not memories.caches
        dataset = self._built if plain else memories.build(with_files(tree, files))
        pipeline = self._pipeline(dataset, reading, stall, memories)
        pipeline = filling_at_once(pipeline) if early else pipeline
        ready = ReadyPipeline(tree, reading.after, files, memories, early, pipeline, stall)
        if reading.taken is None:
            self._ready.add(ready)
        return ready

    def _take_offered(self, after: Stages) -> tuple[Any, Reading] | None:
        iterator, self._offered = self._offered(), _gone
        reading = next((each for each in self._live() if each.iterator() is iterator), None)
        if iterator is None or reading is None or reading.handed_out:
            return None
        if reading.knobs != self.knobs or reading.after != after:
            return None
        reading.handed_out = True
        return iterator, reading

    def _may_start_early(self, after: Stages) -> bool:
        tree = tree_after(self._autopipe_tree, after)
        sequence = self._plan.keeps == str(Keeps.SEQUENCE)
        if not self._stores.files_are_whole or not may_start_early(tree, sequence=sequence):
            return False
        return not self._stores.has_memories or self._stores.next_memories(self._memories_in_use()).full

    def _change_between_elements(self, reading: Reading, tree: ir.Node) -> None:
        """Change an iterator as :meth:`_change` does; one that another thread may be taking an element of is left."""
        with reading.taker.kept_waiting() as is_here:
            if is_here:
                self._change(reading, tree)

    def _change(self, reading: Reading, tree: ir.Node) -> None:
        """Make an iterator go on over a pipeline of the same stages, but for the knobs that wait for the next one."""
        iterator = reading.iterator()
        if iterator is None or reading.writes:
            return
        knobs = reading.knobs | {knob.name: knob.value for knob in read_knobs(tree) if knob.live}
        if knobs == reading.knobs or waits_for_next_epoch(tree_after(tree, reading.after)):
            return
        state = self._state_of(reading, iterator)
        if state is None:
            return
        # Re-pointing draws from the generators of shuffle seeds, so it has its own: later epochs keep theirs.
        tree = with_knobs(tree, knobs)
        own = trees.transform(while_filling(tree, reading.after) if reading.fills else tree, with_new_seed_generator)
        memories = self._memories_for(reading)
        dataset = memories.build(with_files(own, reading.files))
        pipeline = self._pipeline(dataset, reading, reading.stall, memories)
        if not repoint(iterator, state, pipeline, aside=self._ends_aside(reading.after)):
            return
        self._stores.succeed(reading.memories, memories)
        reading.knobs, reading.memories = knobs, memories
        if repeats_a_seeded_shuffle(tree_after(own, reading.after)):
            self._draw_on_after(own)

    def _draw_on_after(self, own: ir.Node) -> None:
        """Let the next iterators draw their orders where one that goes on for ever will have left the seeds."""
        self._ready.clear()
        self._rebuild(with_seed_generators_of(own, self._autopipe_tree))
        if self._tried_next is not None:
            self._tried_next = with_seed_generators_of(own, self._tried_next)

    def _state_of(self, reading: Reading, iterator: Any) -> Any:
        """Return where an iterator is; ``None`` where TensorFlow cannot say so, or takes too long to."""
        self._holds_much = (
            self._holds_much or has_large_buffer(self._autopipe_tree) or reading.memories.hold_more_than(MOST_HELD)
        )
        if self._holds_much:
            return None
        try:
            state = state_of(iterator)
        except tf.errors.UnimplementedError:
            return None
        self._holds_much = len(state) > MOST_HELD
        return None if self._holds_much else state

    def _memories_for(self, reading: Reading) -> Memories:
        """Return where an iterator finds what its memory caches hold, once its state is restored.

        They are emptied for a moment then, which nobody else must see: neither another iterator, nor the pipeline
        before, which may still be coming to its end.
        """
        shared = self._memories_in_use().count(reading.memories) > 1 or self._stores.is_derived(reading.memories)
        return reading.memories.successor() if shared or self._ends_aside(reading.after) else reading.memories

    def _ends_aside(self, after: Stages) -> bool:
        return may_end_aside(tree_after(self._autopipe_tree, after))

    def _pipeline(self, dataset: Any, reading: Reading, stall: StallCounter | None, memories: Memories) -> Any:
        """Return the dataset an iterator runs: with a meter and a note of its end where there are counters for them."""
        dataset = built_after(dataset, reading.after)
        synchronous = reading.ends_synchronously
        if stall is not None:
            dataset = metered(dataset, stall, inner_prefetch=synchronous)
        if reading.taken is not None:
            tell = partial(self._stores.note_end, memories, reading.files)
            prefetched = synchronous and stall is None
            stateless = all(effects(fn).steady for fn in trees.functions(reading.tree))
            chosen = any(isinstance(each, ir.ChooseFrom) for each in trees.walk_through(reading.tree))
            dataset = telling_its_end(
                dataset, tell, reading.taken, inner_prefetch=prefetched, stateless=stateless, chosen=chosen
            )
        if any(dataset is node.dataset for node in trees.walk(self._autopipe_tree) if isinstance(node, ir.Source)):
            # The author's own, on which nothing is noted.
            dataset = dataset.with_options(tf.data.Options())
        # The iterator holds its dataset; this makes it hold the functions and what caches keep their elements in too,
        # which TensorFlow frees otherwise.
        dataset._autopipe_owner = (self.original, self._autopipe_tree, memories)
        return dataset

    def _live(self) -> list[Reading]:
        known = (each() for each in self._readings)
        return [reading for reading in known if reading is not None and reading.iterator() is not None]

    def _memories_in_use(self) -> list[Memories]:
        return [reading.memories for reading in self._live()]


def _gone() -> None:
    """Stand in for a reference to what is gone."""
