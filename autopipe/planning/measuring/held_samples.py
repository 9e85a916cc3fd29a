"""Sources of sampled elements, held in memory so that later stages are timed without those that make them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.signature import signature
from autopipe.planning.measuring.samples import of_one_shape, without_buffers, without_calls
from autopipe.rules import MeasurementError

__all__ = ["HeldSamples", "at_the_pace_of", "without_end"]

_ELEMENTS = 256
_FEW = 8
_MOST_SOURCES = 2


class HeldSamples:
    """The samples of the last few pipelines that were sampled."""

    def __init__(self) -> None:
        self._sources: dict[ir.Node, ir.Node] = {}

    def source(self, node: ir.Node, sample: Callable[[ir.Node, int], Sequence[Any]]) -> ir.Node:
        """Return a source of sampled elements of a pipeline. They do not depend on parallel calls.

        Args:
            node: the pipeline.
            sample: returns the first elements of a pipeline, as many as asked.

        Raises:
            MeasurementError: if they are not plain tensors, or there is no sample.
        """
        elements = without_calls(node)
        if elements not in self._sources:
            self.hold(elements, sample(self._from_what_is_held(without_buffers(node)), _ELEMENTS))
        return self._sources[elements]

    def hold(self, node: ir.Node, sampled: Sequence[Any]) -> None:
        """Use elements that a pipeline gave as its sample.

        Raises:
            MeasurementError: if they are not plain tensors.
        """
        source = _held(sampled, signature(node).element_spec)
        while len(self._sources) >= _MOST_SOURCES:
            del self._sources[next(iter(self._sources))]
        self._sources[without_calls(node)] = source

    def _from_what_is_held(self, node: ir.Node) -> ir.Node:
        """Return the pipeline with sampled elements in place of the stages that make them, if only maps follow.

        If elements have many shapes, only those of one shape are held, which may be too few for a sample of what
        follows.
        """
        upstream = node
        while isinstance(upstream, ir.Map):
            upstream = upstream.input
            held = self._sources.get(without_calls(upstream))
            if held is not None and signature(held).cardinality >= _FEW:
                return trees.substitute(node, upstream, held)
        return node


def without_end(sample: ir.Node) -> ir.Node:
    """Return the elements of a sample again and again; reading them from a cache is faster than slicing them."""
    return ir.Repeat(input=ir.Cache(input=sample))


def at_the_pace_of(passing: ir.Node, sample: ir.Node) -> ir.Node:
    """Return the elements of a sample, each as soon as another pipeline gives one, which is dropped.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.build import build
    >>> passing, sample = (extract(tf.data.Dataset.from_tensor_slices(each)) for each in ([1, 2], [7, 8, 9]))
    >>> [int(x) for x in build(at_the_pace_of(passing, sample))]
    [7, 8]
    """
    pairs = ir.Zip(parts=(passing, sample), structure=(0, 1))
    return extract(build(pairs).map(lambda passed, held: held, synchronous=True)).on(pairs)


def _held(elements: Sequence[Any], spec: Any) -> ir.Node:
    try:
        stacked = tf.nest.map_structure(_stacked, spec, *of_one_shape(elements))
        source = tf.data.Dataset.from_tensor_slices(stacked)
    except (TypeError, ValueError) as kind:
        raise MeasurementError("its elements are not plain tensors, so that no sample of them can be held") from kind
    return extract(source)


def _stacked(spec: Any, *parts: Any) -> Any:
    if parts[0] is None:
        return None
    if not isinstance(spec, tf.RaggedTensorSpec) or spec.ragged_rank:
        return tf.stack(parts)
    # Rows of a ragged tensor come as tensors, but must be joined to a ragged tensor again.
    lengths = tf.constant([part.shape[0] for part in parts], spec.row_splits_dtype)
    return tf.RaggedTensor.from_row_lengths(tf.concat(parts, axis=0), lengths)
