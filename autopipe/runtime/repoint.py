"""How a live iterator continues with another pipeline of the same stages.

Three public ops do it: its state is serialized, the new pipeline is made in the same resource, and the state is
restored. Keras holds the resource, so the running ``fit`` does not notice. A private attribute of TensorFlow is read
and written here, ``OwnedIterator._dataset``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.effects import effects
from autopipe.functions.joined.memoized import new_table
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import memory_caches
from autopipe.pipeline.cache_files import may_write
from autopipe.pipeline.seeds import is_reseeded, repeats_a_seeded_shuffle
from autopipe.pipeline.signature import signature
from autopipe.runtime.disposal import number_given, put_in_place, resource_of
from autopipe.runtime.restoring import restored_wrongly

__all__ = [
    "MOST_HELD",
    "has_large_buffer",
    "repoint",
    "restore",
    "restore_in_place",
    "state_of",
    "waits_for_next_epoch",
    "was_never_read",
    "with_new_seed_generator",
    "with_own_state",
    "with_seed_generators_of",
]

MOST_HELD = 20_000
"""At most this many elements in buffers and memory caches: an iterator's state has each; more take too long to save."""

_IGNORE_EXTERNAL_STATE = 1
# The attribute of an iterator that notes that a state was restored into it.
_RESTORED = "_autopipe_restored"


def repoint(iterator: Any, state: Any, dataset: Any, *, aside: bool = False) -> bool:
    """Make a live iterator continue with another pipeline of the same stages, from where it is.

    Args:
        iterator: the iterator.
        state: where it is, see :func:`state_of`.
        dataset: the pipeline. If ``aside``, its caches must not share memories with those of the one before.
        aside: whether the one before may still be ending when this returns.

    Returns:
        Whether it does; ``False`` if TensorFlow cannot carry its state over: it then continues as it was.
    """
    resource = resource_of(iterator)
    restored = getattr(iterator, _RESTORED, False)
    try:
        before = put_in_place(resource, dataset, aside=aside, restored=restored)
    except tf.errors.OpError:
        return False
    setattr(iterator, _RESTORED, True)
    try:
        tf.raw_ops.DeserializeIterator(resource_handle=resource, serialized=state)
    except tf.errors.OpError:
        # TensorFlow's own rewrites may have given it other stages. The state still fits the old ones.
        before.result()
        put_in_place(resource, iterator._dataset, aside=False)
        tf.raw_ops.DeserializeIterator(resource_handle=resource, serialized=state)
        return False
    iterator._dataset = dataset
    return True


def restore(iterator: Any, state: Any, dataset: Any, *, aside: bool = False) -> bool:
    """Make an iterator continue with a pipeline from where another iterator over the same stages was.

    Args:
        iterator: the iterator.
        state: where the other was.
        dataset: the pipeline, as for :func:`repoint`.
        aside: as for :func:`repoint`.

    Returns:
        Whether it does; ``False`` if the state is that of other stages: it then starts its own pipeline anew.
    """
    resource = resource_of(iterator)
    before = put_in_place(resource, dataset, aside=aside, restored=getattr(iterator, _RESTORED, False))
    try:
        tf.raw_ops.DeserializeIterator(resource_handle=resource, serialized=state)
    except tf.errors.OpError as error:
        before.result()
        put_in_place(resource, iterator._dataset, aside=False)
        if isinstance(error, tf.errors.NotFoundError):
            return False
        raise
    setattr(iterator, _RESTORED, True)
    iterator._dataset = dataset
    return True


def restore_in_place(iterator: Any, state: Any) -> bool:
    """Make an iterator continue with the pipeline it runs from where another iterator over the same stages was.

    Its pipeline is not made again: that would draw from the seeds of its shuffles again, and TensorFlow does not always
    restore how many were drawn.

    Returns:
        Whether it does; ``False`` if the state is that of other stages: it is then unchanged.
    """
    try:
        tf.raw_ops.DeserializeIterator(resource_handle=resource_of(iterator), serialized=state)
    except tf.errors.NotFoundError:
        return False
    setattr(iterator, _RESTORED, True)
    return True


def state_of(iterator: Any) -> Any:
    """Return the state of an iterator, for ``DeserializeIterator``: a vector with an entry for each element it holds.

    Elements are in it by reference. Saving takes about 10 us for each.

    Raises:
        tensorflow.errors.UnimplementedError: if TensorFlow cannot save it.
    """
    resource = resource_of(iterator)
    return tf.raw_ops.SerializeIterator(resource_handle=resource, external_state_policy=_IGNORE_EXTERNAL_STATE)


def was_never_read(iterator: Any) -> bool:
    """Return whether an iterator has given no element yet and was not restored; ``True`` also if that is unknown.

    Without AUTOTUNE, TensorFlow does not count elements.

    >>> iterator = iter(tf.data.Dataset.range(3))
    >>> first = was_never_read(iterator), int(next(iterator))
    >>> first, was_never_read(iterator)
    ((True, 0), False)
    """
    return not getattr(iterator, _RESTORED, False) and number_given(resource_of(iterator)) in (0, None)


def waits_for_next_epoch(tree: ir.Node) -> bool:
    """Return whether changing an iterator of this pipeline would change what it, or the next one, yields.

    TensorFlow does not save the state of a seeded random function, and does not restore all stages as they were, least
    of all from the symbolic checkpoints that an option asks for. Once one of two readers of a memory cache has filled
    it, TensorFlow restores the other as if it had read all of it; if the cache is the author's own, the other reader
    may be in another dataset. A cache file that is being written loses the parts so far. And a seeded shuffle that
    starts anew within one iterator, repeated or joined to itself, shares its seed generator with the next iterator:
    once it has ended, how many seeds it took is not known.
    """
    if any(options.experimental_symbolic_checkpoint for options in trees.options_of(tree)):
        return True
    if restored_wrongly(tree) or any(effects(fn).seeded_random for fn in trees.functions(tree)):
        return True
    if may_write(tree) or any(isinstance(node, ir.SharedCache) for node in trees.walk(tree)):
        return True
    read = sum(map(trees.is_memory_cache, trees.walk(tree)))
    if read > len(memory_caches(tree)):
        return True
    ending = (
        node
        for node in trees.walk(tree)
        if isinstance(node, ir.Concatenate | ir.Take | ir.Zip) or (isinstance(node, ir.Repeat) and not node.is_infinite)
    )
    return any(map(repeats_a_seeded_shuffle, ending))


def has_large_buffer(tree: ir.Node) -> bool:
    """Return whether a shuffle may hold more than :data:`MOST_HELD` elements.

    >>> from autopipe.pipeline.extract import extract
    >>> few, many = tf.data.Dataset.range(10), tf.data.Dataset.range(10**6)
    >>> shuffled = few.shuffle(100_000), many.shuffle(100_000), many.shuffle(many.cardinality()), many.shuffle(-2)
    >>> [has_large_buffer(extract(dataset)) for dataset in shuffled]
    [False, True, True, True]
    """
    large = (node for node in trees.walk(tree) if isinstance(node, ir.Shuffle) and node.capacity > MOST_HELD)
    return any(not 0 <= signature(node.input).cardinality <= MOST_HELD for node in large)


def with_own_state(node: ir.Node) -> ir.Node:
    """Give a stage the state that must survive rebuilding the dataset: a table of results, or a generator of seeds."""
    if isinstance(node, ir.MemoizedMap) and node.table is None:
        return replace(node, table=new_table())
    return _with_seed_generator(node)


def _with_seed_generator(node: ir.Node) -> ir.Node:
    if not isinstance(node, ir.Shuffle) or not node.seeded or node.seed_generator is not None:
        return node
    seed, seed2 = (tf.constant(each, tf.int64) for each in node.seeds)
    made = tf.raw_ops.AnonymousSeedGenerator(seed=seed, seed2=seed2, reshuffle=node.reshuffle_each_iteration)
    return replace(node, seed_generator=made)


def with_new_seed_generator(node: ir.Node) -> ir.Node:
    """Give a seeded shuffle a generator of its own, so that datasets built from it leave other generators alone."""
    return _with_seed_generator(replace(node, seed_generator=None)) if isinstance(node, ir.Shuffle) else node


def with_seed_generators_of(other: ir.Node, tree: ir.Node) -> ir.Node:
    """Return a pipeline whose seeded shuffles draw from the generators of another pipeline with the same shuffles."""
    generators = {node.origin: node.seed_generator for node in trees.walk(other) if is_reseeded(node)}

    def adopt(node: ir.Node) -> ir.Node:
        return replace(node, seed_generator=generators[node.origin]) if is_reseeded(node) else node

    return trees.transform(tree, adopt)
