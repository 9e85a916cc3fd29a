"""What a search space is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from autopipe.planning.machine import Machine

__all__ = ["SearchSpace"]


class SearchSpace(Protocol):
    """Says what each knob of a pipeline may be."""

    def __call__(self, knobs: Mapping[str, int], machine: Machine) -> dict[str, Any]:
        """Return an Optuna distribution for each knob that is to be searched.

        Args:
            knobs: the knobs of the pipeline with their present values.
            machine: the cores and memory there really are.
        """
        ...
