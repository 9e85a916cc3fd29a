"""What must be proved about arrays in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from autopipe.figures import bytes_text
from autopipe.pipeline import ir, trees
from autopipe.rules._base import Proof, Site

__all__ = ["ArraysOnHost", "WholeWindows"]


@dataclass(frozen=True)
class ArraysOnHost:
    """The arrays of a pipeline are in the host's memory, or a copy of them fits there."""

    pipeline: ir.Node = field(repr=False)

    def check(self, site: Site) -> Proof:
        """Look where TensorFlow holds each array: it may have put one on the accelerator."""
        sources = [node for node in trees.walk(self.pipeline) if isinstance(node, ir.Tensors | ir.TensorSlices)]
        elsewhere = [array for source in sources for array in source.components if "CPU" not in array.device]
        needed = sum(map(_bytes, elsewhere))
        if needed > site.measurements.ram_budget:
            copies = f"{bytes_text(needed)} of arrays are on the accelerator, and a copy of them on the host"
            budget = bytes_text(site.measurements.ram_budget)
            return Proof(False, f"{copies} would be above the RAM budget of {budget}")
        if elsewhere:
            return Proof(True, f"a copy of the arrays on the accelerator takes {bytes_text(needed)} on the host")
        return Proof(True, "the arrays are read where they are, not copied")


@dataclass(frozen=True)
class WholeWindows:
    """All windows over a series have the same number of elements."""

    window: ir.Window = field(repr=False)
    rows: int

    def check(self, site: Site) -> Proof:
        """Look where the last window begins and ends."""
        window = self.window
        last = (self.rows - 1) // window.shift * window.shift
        ends = last + (window.size - 1) * window.stride
        if self.rows and ends >= self.rows:
            return Proof(False, "the last windows are smaller; drop_remainder=True leaves them out")
        return Proof(True, "all windows are whole")


def _bytes(array: Any) -> int:
    return int(array.shape.num_elements()) * int(array.dtype.size)
