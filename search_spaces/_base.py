"""What a search space is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from autopipe.pipeline.knobs import Knob
    from autopipe.planning.machine import Machine

__all__ = ["SearchSpace"]


class SearchSpace(Protocol):
    """Says what each knob of a pipeline may be."""

    def __call__(self, knobs: Sequence[Knob], machine: Machine) -> dict[str, Any]:
        """Return an Optuna distribution, by name, for each knob that is to be searched.

        Args:
            knobs: those of the pipeline, with their present values and limits.
            machine: the cores and memory there really are.
        """
        ...
