"""The dataset that ``optimize()`` returns: a ``tf.data.Dataset`` whose knobs can change while it is read.

A live iterator is re-pointed in three public ops: its state is serialized, a new pipeline is made in the same
resource, and the state is put back. Keras holds the resource, so the running ``fit`` does not notice. Two private
attributes of TensorFlow are read here, ``OwnedIterator._iterator_resource`` and ``Dataset._variant_tensor``.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import tensorflow as tf

from autopipe.functions.effects import effects
from autopipe.memories import Memories
from autopipe.optimizer import Rewriting
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import memory_caches
from autopipe.pipeline.knobs import read_knobs, with_knobs
from autopipe.planning.disk_cache import DiskCache
from autopipe.planning.plan import Plan
from autopipe.report.explanation import Explanation
from autopipe.telemetry.stall import StallCounter, metered

__all__ = ["Observer", "OptimizedDataset", "Reading", "observe", "stop_observing"]

_IGNORE_EXTERNAL_STATE = 1


class Observer(Protocol):
    """Is told of every iterator over an optimized dataset; pipelines made while one listens are metered."""

    def reading_started(self, reading: Reading) -> None:
        """Take note of a new iterator."""
        ...


# Weak, so that a callback left behind by a fit() that raised is not told for ever.
_observers: weakref.WeakSet[Any] = weakref.WeakSet()


def observe(observer: Observer) -> None:
    """Tell ``observer`` of every iterator made from now on."""
    _observers.add(observer)


def stop_observing(observer: Observer) -> None:
    """Tell ``observer`` no more."""
    _observers.discard(observer)


@dataclass(eq=False)
class Reading:
    """One iterator over an optimized dataset.

    Attributes:
        dataset: which one.
        iterator: the iterator, or ``None`` once it is gone.
        stall: counts how long its consumer waited; ``None`` if nobody observed when it was made.
        knobs: those it runs with. They lag behind the dataset's where it cannot change before its end.
        memories: where its memory caches keep their elements.
        files: where it keeps what its disk caches hold, in the order of the tree.
        writes: whether it began to write one of them; TensorFlow cannot carry that over to another pipeline.
    """

    dataset: OptimizedDataset
    iterator: weakref.ReferenceType[Any]
    stall: StallCounter | None
    knobs: dict[str, int]
    memories: Memories
    files: tuple[str, ...] = ()
    writes: bool = False


class OptimizedDataset(tf.data.Dataset):
    """A rewritten pipeline. It is used as any ``tf.data.Dataset``, and undone by ``.original``.

    Attributes:
        original: the dataset as it was given to ``optimize()``.
    """

    def __init__(self, original: Any, rewriting: Rewriting, plan: Plan, disk: DiskCache | None = None) -> None:
        self.original = original
        self._disk = disk
        self._rewriting = rewriting
        self._plan = plan
        tree = with_knobs(_with_thread_pool(rewriting.after, original), plan.knobs)
        self._autopipe_tree = trees.transform(tree, _with_seed_generator)
        self._files = tuple(disk.filename(cache.input) for cache in _caches_on_disk(tree)) if disk else ()
        self._memories = Memories(self._autopipe_tree)
        # Iterators over what is derived from this dataset are not known, so they fill and read memories of their own.
        self._derived = Memories(self._autopipe_tree)
        self._readings: list[Reading] = []
        self._lock = threading.Lock()
        self._built = self._derived.build(self._autopipe_tree)
        super().__init__(self._built._variant_tensor)

    def _inputs(self) -> list[Any]:
        # TensorFlow takes the options from here, and what is held here stays alive: the user's captures too.
        return [self.original]

    @property
    def element_spec(self) -> Any:
        """The structure of one element, as in the original."""
        return self.original.element_spec

    def __iter__(self) -> Any:
        if not tf.executing_eagerly():
            return super().__iter__()
        stall = StallCounter() if _observers else None
        with self._lock:
            files, memories = self._files_of_next_iterator(), self._memories_of_next_iterator()
            plain = not files and not memories.caches
            dataset = self._built if plain else memories.build(_with_files(self._autopipe_tree, files))
            iterator = iter(self._pipeline(dataset, stall, memories))
            writes = not self._holds(files)
            reading = Reading(self, weakref.ref(iterator), stall, self.knobs, memories, files, writes)
            self._readings = [*self._live(), reading]
        for observer in tuple(_observers):
            observer.reading_started(reading)
        return iterator

    def explain(self) -> Explanation:
        """Return what was done and why that is safe, and what was refused and why; printed, it is a report."""
        return Explanation(self._rewriting, self.plan)

    @property
    def tree(self) -> ir.Node:
        """The pipeline as it runs now."""
        return self._autopipe_tree

    @property
    def plan(self) -> Plan:
        """The rules applied and the knobs as they are now."""
        return replace(self._plan, knobs=self.knobs)

    @property
    def knobs(self) -> dict[str, int]:
        """The numbers that :meth:`retune` can change; -1 is AUTOTUNE."""
        return {knob.name: knob.value for knob in read_knobs(self._autopipe_tree)}

    def retune(self, knobs: Mapping[str, int]) -> None:
        """Change knobs, at once, also under an iterator that is being read.

        Every element is still yielded exactly once per epoch. To be called between two elements, from the thread
        that takes them. What a memory cache holds is kept. A knob that is not ``live``, such as the cycle of an
        interleave, changes from the next iterator on. So do all where an iterator cannot be changed (TensorFlow
        cannot save a generator's state, that of a seeded random function, a cache file half written, or a memory
        cache that is read at two places): it goes on as it is.

        Args:
            knobs: values by the names in :attr:`knobs`; the others stay.

        Raises:
            KnobError: for an unknown knob or a value outside its range; nothing is changed then.

        >>> import tensorflow as tf, autopipe
        >>> dataset = autopipe.optimize(tf.data.Dataset.range(6).map(lambda x: x * 10))
        >>> iterator = iter(dataset)
        >>> first = next(iterator)
        >>> dataset.retune({"prefetch.buffer_size": 3})
        >>> [int(x) for x in iterator]
        [10, 20, 30, 40, 50]
        """
        tree = with_knobs(self._autopipe_tree, knobs)
        with self._lock:
            if tree != self._autopipe_tree:
                self._autopipe_tree = tree
                self._built = self._derived.build(tree)
                self._variant_tensor_attr = self._built._variant_tensor
            self._readings = self._live()
            for reading in self._readings:
                self._change(reading, tree)

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
            self._change(reading, tree)

    def _files_of_next_iterator(self) -> tuple[str, ...]:
        """Return the file of each disk cache: the one that is whole, or a new one that nobody else writes."""
        if self._disk is not None:
            self._files = tuple(map(self._disk.again, self._files))
        return self._files

    def _memories_of_next_iterator(self) -> Memories:
        """Return the memories of the next iterator: those that are full, or that no other iterator fills."""
        others = [reading.memories for reading in self._live()]
        full = next((each for each in (self._memories, *others) if each.full), None) if others else None
        if full is not None:
            self._memories = full
        elif self._memories in others:
            self._memories = Memories(self._autopipe_tree)
        return self._memories

    def _holds(self, files: tuple[str, ...]) -> bool:
        return self._disk is None or all(map(self._disk.holds, files))

    def _change(self, reading: Reading, tree: ir.Node) -> None:
        """Make an iterator go on over a pipeline of the same stages, but for the knobs that wait for the next one."""
        iterator = reading.iterator()
        if iterator is None or reading.writes:
            return
        knobs = reading.knobs | {knob.name: knob.value for knob in read_knobs(tree) if knob.live}
        if knobs == reading.knobs or _waits_for_next_epoch(tree):
            return
        # Re-pointing draws from the generators of shuffle seeds, so it has its own: later epochs keep theirs.
        own = trees.transform(with_knobs(tree, knobs), _without_seed_generator)
        memories = self._memories_for(reading)
        dataset = memories.build(_with_files(own, reading.files))
        if _repoint(iterator, self._pipeline(dataset, reading.stall, memories)):
            reading.knobs, reading.memories = knobs, memories

    def _memories_for(self, reading: Reading) -> Memories:
        """Return where an iterator finds what its memory caches hold, once its state is restored.

        They are emptied for a moment then, which nobody else must see. What the state holds is not copied.
        """
        shared = sum(each.memories is reading.memories for each in self._live()) > 1
        return Memories(self._autopipe_tree) if shared else reading.memories

    def _pipeline(self, dataset: Any, stall: StallCounter | None, memories: Memories) -> Any:
        """Return the dataset an iterator runs: with a meter at its end where there is a counter for it."""
        if stall is not None:
            dataset = metered(dataset, stall, inner_prefetch=_ends_synchronously(self._autopipe_tree))
        # The iterator holds its dataset; this makes it hold the functions and what caches keep their elements in too,
        # which TensorFlow frees otherwise.
        dataset._autopipe_owner = (self, self._autopipe_tree, memories)
        return dataset

    def _live(self) -> list[Reading]:
        return [reading for reading in self._readings if reading.iterator() is not None]


def _repoint(iterator: Any, dataset: Any) -> bool:
    """Make a live iterator go on over another pipeline of the same stages, from where it is.

    Returns:
        Whether it does; ``False`` where TensorFlow cannot save its state, or carry it over, and it goes on as it was.
    """
    resource = iterator._iterator_resource
    try:
        state = tf.raw_ops.SerializeIterator(resource_handle=resource, external_state_policy=_IGNORE_EXTERNAL_STATE)
    except tf.errors.UnimplementedError:
        return False
    try:
        _restore(resource, dataset, state)
    except tf.errors.OpError:
        # TensorFlow may make other stages of it, by rewrites of its own. The state is still that of the old ones.
        _restore(resource, iterator._dataset, state)
        return False
    iterator._dataset = dataset
    return True


def _restore(resource: Any, dataset: Any, state: Any) -> None:
    tf.raw_ops.MakeIterator(dataset=tf.data.experimental.to_variant(dataset), iterator=resource)
    tf.raw_ops.DeserializeIterator(resource_handle=resource, serialized=state)


def _waits_for_next_epoch(tree: ir.Node) -> bool:
    """Return whether changing an iterator of this pipeline would change what it, or the next one, yields.

    TensorFlow does not save the state of a seeded random function. It takes one of two readers of a memory cache for
    one that has read all of it, once the other has filled it. And a seeded shuffle that starts anew within one
    iterator, repeated or joined to itself, takes its seeds from where the next iterator will.
    """
    if any(effects(fn).seeded_random for fn in trees.functions(tree)):
        return True
    read = sum(isinstance(node, ir.Cache) and node.in_memory for node in trees.walk(tree))
    if read > len(memory_caches(tree)):
        return True
    starting_anew = (
        node
        for node in trees.walk(tree)
        if isinstance(node, ir.Concatenate) or (isinstance(node, ir.Repeat) and node.count >= 0)
    )
    return any(_is_reseeded(node) for each in starting_anew for node in trees.walk(each))


def _is_reseeded(node: ir.Node) -> bool:
    return isinstance(node, ir.Shuffle) and node.seeded and node.reshuffle_each_iteration


def _with_seed_generator(node: ir.Node) -> ir.Node:
    """Give a seeded shuffle its own generator of the epochs' seeds, so that it outlives a rebuilt dataset."""
    if not isinstance(node, ir.Shuffle) or not node.seeded or node.seed_generator is not None:
        return node
    seed, seed2 = (tf.constant(each, tf.int64) for each in node.seeds)
    made = tf.raw_ops.AnonymousSeedGenerator(seed=seed, seed2=seed2, reshuffle=node.reshuffle_each_iteration)
    return replace(node, seed_generator=made)


def _without_seed_generator(node: ir.Node) -> ir.Node:
    return replace(node, seed_generator=None) if isinstance(node, ir.Shuffle) else node


def _caches_on_disk(tree: ir.Node) -> list[ir.Cache]:
    return [node for node in trees.walk(tree) if isinstance(node, ir.Cache) and node.on_disk]


def _with_files(tree: ir.Node, files: tuple[str, ...]) -> ir.Node:
    """Return the tree with a file for each of its disk caches, in the order of the tree; without files, as it is."""
    for cache, file in zip(_caches_on_disk(tree), files, strict=False):
        tree = trees.substitute(tree, cache, replace(cache, filename=file))
    return tree


def _with_thread_pool(tree: ir.Node, original: Any) -> ir.Node:
    """Return the tree with a thread pool at its end, unless its author chose one."""
    if original.options().threading.private_threadpool_size is not None:
        return tree
    if any(isinstance(node, ir.ThreadPool) for node in trees.walk(tree)):
        return tree
    return ir.ThreadPool(input=tree)


def _ends_synchronously(tree: ir.Node) -> bool:
    """Return whether TensorFlow would put a prefetch of its own at the end."""
    last = trees.last_stage(tree)
    return not isinstance(last, ir.Prefetch) and getattr(last, "num_parallel_calls", None) is None
