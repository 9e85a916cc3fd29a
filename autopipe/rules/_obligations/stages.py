"""What must be proved about stages and what is upstream of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import tensorflow as tf

from autopipe.functions.analysis.effects import effects, is_stateful
from autopipe.functions.analysis.failures import may_fail
from autopipe.functions.function import Function
from autopipe.functions.subgraph import spec_kind, with_called
from autopipe.pipeline import ir, trees
from autopipe.pipeline.seeds import is_reseeded, repeats_a_seeded_shuffle
from autopipe.pipeline.signature import Signature, signature
from autopipe.pipeline.tensorflow_rewrites import does_by_itself
from autopipe.pipeline.text import stage
from autopipe.pipeline.visibility import who_would_see
from autopipe.rules._base import Keeps, Proof, Site
from autopipe.rules._obligations.errors import leaves_some_over

__all__ = [
    "AsWellKnown",
    "DrawsNoLess",
    "NoNewReadAhead",
    "NoOrderDrawnEarly",
    "OneShape",
    "OrdinaryTypes",
    "PlainTensors",
    "ReadAheadUnseen",
    "RepeatedAtOnce",
    "WholeBatches",
]

# Ops registered as stateful that TensorFlow ignores, or whose branches it checks, before it makes a map parallel.
_NOT_COUNTED = frozenset("Assert If While".split())
_RARE_TYPES = frozenset("float8_e4m3fn float8_e5m2 int2 int4 qint16 quint16 uint2 uint4".split())


@dataclass(frozen=True)
class AsWellKnown:
    """TensorFlow knows the type and number of elements as precisely after the rewrite as before."""

    after: ir.Node = field(repr=False)
    before: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Build both and compare: ``fit()`` counts steps by the number, and builds the model by the type."""
        old, new = signature(self.before), signature(self.after)
        if old.cardinality != new.cardinality:
            after = f"the number of elements after {stage(self.after)}"
            return Proof(False, f"{after} would be {_number(new)}, and is {_number(old)} now")
        if old.element_spec != new.element_spec:
            return Proof(False, f"the type of elements would be {new.element_spec} instead of {old.element_spec}")
        return Proof(True, "the type and number of elements are as well known as before")


def _number(known: Signature) -> str:
    return "infinite" if known.is_infinite else f"{known.cardinality:,}" if known.is_counted else "unknown"


@dataclass(frozen=True)
class DrawsNoLess:
    """Dropping a stage that repeats once draws no fewer orders from a seed."""

    repeat: ir.Repeat = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look for an option that keeps TensorFlow from dropping it: it would draw one more order at its end."""
        drawing = next(filter(is_reseeded, trees.walk(self.repeat)), None)
        if drawing is None or does_by_itself(site.pipeline, "noop_elimination"):
            return Proof(True, "")
        kept = f"an option keeps TensorFlow from dropping {stage(self.repeat)}"
        return Proof(False, f"{kept}, and it makes {stage(drawing)} draw one more order in each epoch")


@dataclass(frozen=True)
class NoNewReadAhead:
    """A parallel map takes no element earlier than TensorFlow does by itself, or this cannot be observed."""

    mapped: ir.Map

    def check(self, site: Site) -> Proof:
        """TensorFlow calls a function in parallel without ops registered as stateful, unless an option forbids it."""
        fn = self.mapped.fn
        ops = with_called(fn.concrete.graph.as_graph_def())
        stateful = effects(fn).stateless_python or any(op.op not in _NOT_COUNTED and is_stateful(op.op) for op in ops)
        if stateful or not does_by_itself(site.pipeline, "map_parallelization"):
            return ReadAheadUnseen(self.mapped.input).check(site)
        return Proof(True, "TensorFlow takes elements ahead for it by itself")


@dataclass(frozen=True)
class NoOrderDrawnEarly:
    """After an epoch that is abandoned midway, the next one has the order that its seed would have given next."""

    pipeline: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look for a shuffle with a seed that starts anew while one iterator reads on."""
        if repeats_a_seeded_shuffle(self.pipeline):
            return Proof(
                False,
                "each repetition draws its order from a seed: with more read-ahead, an epoch that is abandoned midway "
                "would have drawn one order more",
            )
        return Proof(True, "no order is drawn from a seed while an iterator reads on")


@dataclass(frozen=True)
class PlainTensors:
    """All elements are made of dense tensors."""

    pipeline: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look at the type of the elements."""
        for part in signature(self.pipeline).flat_specs:
            if not isinstance(part, tf.TensorSpec):
                return Proof(False, f"elements hold a {spec_kind(part)}, not a plain tensor")
            if part.dtype in (tf.variant, tf.resource):
                return Proof(False, f"elements hold a {part.dtype.name}, not a plain tensor")
        return Proof(True, "")


@dataclass(frozen=True)
class OrdinaryTypes:
    """All elements are of types that TensorFlow's conditionals support."""

    pipeline: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look at the type of the elements: for some, such as ``quint16``, conditionals have no kernel."""
        for part in tf.nest.flatten(signature(self.pipeline).element_spec, expand_composites=True):
            kind = getattr(part, "dtype", None)
            if kind is not None and kind.name in _RARE_TYPES:
                return Proof(False, f"elements hold a {kind.name}, for which TensorFlow has no conditional")
        return Proof(True, "")


@dataclass(frozen=True)
class OneShape:
    """All elements are dense tensors of one known shape."""

    pipeline: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look at the type of the elements: a batch of others may fail, pad, or not be a tensor."""
        plain = PlainTensors(self.pipeline).check(site)
        if not plain.holds:
            return plain
        for part in signature(self.pipeline).flat_specs:
            if not part.shape.is_fully_defined():
                return Proof(False, f"elements have the shape {part.shape} and may differ, so that a batch would fail")
        return Proof(True, "all elements have one shape")


@dataclass(frozen=True)
class ReadAheadUnseen:
    """It cannot be observed that elements are made before they are asked for."""

    pipeline: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look for Python, variables, unknown state, and seeded orders where TensorFlow reads nothing ahead."""
        witness = who_would_see(self.pipeline, draws_count=site.demanded is not Keeps.TRAINING)
        if witness:
            return Proof(False, f"{witness}, and it would run ahead of the consumer")
        drawn = NoOrderDrawnEarly(self.pipeline).check(site)
        if not drawn.holds and not does_by_itself(site.pipeline, "inject_prefetch"):
            return drawn
        draws = who_would_see(self.pipeline)
        if draws:
            return Proof(True, f"{draws}, and when it draws is free", Keeps.TRAINING)
        return Proof(True, "no state upstream is read elsewhere, so making elements early cannot be noticed")


@dataclass(frozen=True)
class RepeatedAtOnce:
    """TensorFlow fuses a shuffle and the repeat after it into one stage."""

    def check(self, site: Site) -> Proof:
        """Look for an option that forbids it: each epoch would then wait until the buffer is full again."""
        if does_by_itself(site.pipeline, "shuffle_and_repeat_fusion"):
            return Proof(True, "the buffer is filled for the next epoch during this one")
        return Proof(False, "an option keeps TensorFlow from filling the buffer for the next epoch during this one")


@dataclass(frozen=True)
class WholeBatches:
    """All elements can be batched; if batches must be whole, the first elements fill up the last one.

    Args:
        batch: the batch as written.
        elements: the elements to batch.
        functions: called for the batches. They must not fail on elements that the written batch leaves over.
    """

    batch: ir.Batch
    elements: ir.Node = field(repr=False)
    functions: tuple[Function, ...] = field(repr=False)

    def check(self, site: Site) -> Proof:
        """If batches must be whole, count elements: their functions accept no others."""
        if not self.batch.drop_remainder:
            return Proof(True, "")
        if signature(self.elements).cardinality < self.batch.batch_size:
            return Proof(False, f"{stage(self.batch)} makes whole batches only, and may have too few elements for one")
        failing = filter(None, map(may_fail, self.functions))
        culprit = next(failing, None) if leaves_some_over(self.batch) else None
        if culprit is None:
            return Proof(True, "")
        return Proof(False, f"an element that {stage(self.batch)} leaves over may fail ({culprit}) where it did not")
