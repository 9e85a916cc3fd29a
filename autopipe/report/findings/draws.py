"""Findings about random draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autopipe.functions.analysis.effects import effects
from autopipe.functions.function import Function
from autopipe.functions.subgraph import with_called
from autopipe.pipeline import ir, trees
from autopipe.pipeline.repeatable import varies_by_epoch
from autopipe.report.findings._base import Finding, Look, Seen, at

__all__ = ["LOOKS"]

# Stages after which each element still has the same seed.
_KEEPING_SEEDS = ir.Map | ir.Options | ir.Prefetch | ir.Repeat | ir.Shuffle | ir.ThreadPool
# Ops that only derive a seed from a seed.
_NO_DRAWS = frozenset(
    "StatelessRandomGetAlg StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg StatelessRandomUniformFullInt "
    "StatelessRandomUniformFullIntV2".split()
)


def same_draws(node: ir.Node, seen: Seen) -> Iterator[Finding]:
    """AP115: draws from seeds that come with the elements, and are the same in every epoch."""
    if not isinstance(node, ir.Map) or not effects(node.fn).steady:
        return
    drawing = _stateless_draws(node.fn)
    if not drawing or _seeds_may_differ(node.input):
        return
    yield at(
        node,
        "AP115",
        f"{node.fn} draws from seeds ({', '.join(drawing)}), and an element comes with the same seed in every epoch: "
        "as augmentation it shows the model the same picture each time",
        "take each seed from a tf.random.Generator in the map, as make_seeds(1)[:, 0] of it, or zip what counts with "
        "a dataset that is repeated already",
    )


def _stateless_draws(fn: Function) -> list[str]:
    ops = {op.op for op in with_called(fn.concrete.graph.as_graph_def())}
    return sorted(op for op in ops - _NO_DRAWS if op.startswith("StatelessRandom"))


def _seeds_may_differ(source: ir.Node) -> bool:
    """Return whether the same element could come with another seed in another epoch, as far as autopipe can tell."""
    while isinstance(source, _KEEPING_SEEDS) and all(effects(fn).steady for fn in trees.called_by(source)):
        source = source.inputs[0]
    unknown = any(isinstance(each, ir.Opaque) for each in trees.walk(source))
    steady = all(effects(fn).steady for fn in trees.functions(source))
    return unknown or not steady or varies_by_epoch(source) or any(map(_repeats_elements, trees.walk(source)))


def _repeats_elements(node: ir.Node) -> bool:
    """Return whether elements come again while seeds go on; ``Dataset.counter`` repeats a constant, for a scan."""
    return isinstance(node, ir.Repeat) and node.count != 1 and not isinstance(node.input, ir.Tensors)


LOOKS: Mapping[str, Look] = {"AP115": same_draws}
