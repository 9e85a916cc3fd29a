"""Which of the sides of a stage have work whose results are worth keeping, and what each needs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import tensorflow as tf

from autopipe.functions.function import Function
from autopipe.functions.parts.fixed_part import changes_between_epochs
from autopipe.functions.parts.sides import sides_opening_files, sides_with_work
from autopipe.pipeline.ir import Node, Opaque, RandomNumbers, Range, SharedCache, Tensors
from autopipe.pipeline.signature import signature
from autopipe.pipeline.trees import called_by, walk
from autopipe.rules._base import Obligation, Proof, Site
from autopipe.rules._memoizing import numbered

__all__ = ["on_side", "sides_to_keep"]

# A seed is one number or two.
_MOST_NUMBERS = 2


class _Worth(IntEnum):
    NO_WORK = 0
    NEVER_THE_SAME = 1
    OF_NUMBERS = 2
    OF_DATA = 3


def sides_to_keep(fn: Function, sides: Sequence[Node | None], widths: tuple[int, ...]) -> tuple[bool, ...] | None:
    """Return for each side whether to keep the results of a function's work on it; ``None`` if it does no such work.

    Only the sides most worth it are kept: work that never repeats cannot be. Making a seed of a counted number, and
    drawing from it, is also work, but must not keep the results of a side with data from being kept.

    Args:
        fn: a function of all sides.
        sides: the source of each side; ``None`` for numbers that the stage itself gives.
        widths: how many tensors each has.
    """
    working, opening = sides_with_work(fn, widths), sides_opening_files(fn, widths)
    worth = [
        _worth(side, opens) if works and side is not None else _Worth.NO_WORK
        for side, works, opens in zip(sides, working, opening, strict=True)
    ]
    most = max(worth)
    return None if most is _Worth.NO_WORK else tuple(each is most for each in worth)


def _worth(side: Node, opens: bool) -> _Worth:
    source = numbered(side).source
    if signature(source).is_infinite or any(map(_draws_or_is_unknown, walk(source))):
        return _Worth.NEVER_THE_SAME
    return _Worth.OF_NUMBERS if _is_counted(side) and not opens else _Worth.OF_DATA


def _draws_or_is_unknown(node: Node) -> bool:
    match node:
        case RandomNumbers() | SharedCache():
            return True
        case Opaque():
            return node.inside is None
    return any(map(changes_between_epochs, called_by(node)))


def _is_counted(side: Node) -> bool:
    """Return whether elements are whole numbers, or rows of them, that come from a counter or constants."""
    specs = signature(side).flat_specs
    whole = (isinstance(each, tf.TensorSpec) and each.dtype.is_integer and each.shape.rank in (0, 1) for each in specs)
    return all(whole) and all(_counts_or_stays(each) for each in walk(side) if not each.inputs)


def _counts_or_stays(source: Node) -> bool:
    if isinstance(source, Tensors):
        return all(each.shape.num_elements() <= _MOST_NUMBERS for each in source.components)
    return isinstance(source, Range)


def on_side(name: str, needed: Obligation) -> Obligation:
    """Return an obligation of a side whose refusal names the side."""
    return _OnSide(name, needed)


@dataclass(frozen=True)
class _OnSide:
    name: str
    needed: Obligation

    def check(self, site: Site) -> Proof:
        proof = self.needed.check(site)
        return proof if proof.holds or not proof.because else replace(proof, because=f"{self.name}: {proof.because}")
