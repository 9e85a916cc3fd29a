"""Rewrites after which floats may round differently."""

from autopipe.pipeline.ir import Node
from autopipe.rules._base import Keeps, Obligation, Rewrite
from autopipe.rules._obligations import RoundingUnseen

__all__ = ["up_to_rounding"]


def up_to_rounding(
    result: Node,
    safe: tuple[Obligation, ...],
    measured: tuple[Obligation, ...] = (),
    *,
    exact: bool,
    unseen: RoundingUnseen,
) -> Rewrite:
    """Return the rewrite of a site: it keeps the elements or, if the bits are the same, as much as its rule does.

    Args:
        result: what the site becomes.
        safe: what must be proved, however floats round.
        measured: the obligations that are checked last.
        exact: whether all bits are the same.
        unseen: what must also be proved if they may differ.
    """
    if exact:
        return Rewrite(result, (*safe, *measured))
    return Rewrite(result, (*safe, unseen, *measured), Keeps.ELEMENTS)
