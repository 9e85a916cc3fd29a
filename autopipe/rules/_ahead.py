"""Reading datasets one after the other, with the next ones opened ahead."""

from autopipe.functions.function import Function
from autopipe.pipeline.ir import AUTOTUNE, Interleave, Node

__all__ = ["HELD_IN_TURN", "in_turn"]

_DATASETS_AHEAD = 4
_ELEMENTS_AHEAD = 32
HELD_IN_TURN = (1 + _DATASETS_AHEAD) * _ELEMENTS_AHEAD
"""How many elements wait to be read at once."""


def in_turn(source: Node, fn: Function, name: str | None) -> Interleave:
    """Return the interleave that reads the dataset ``fn`` makes of each element of ``source``, in order."""
    return Interleave(
        input=source,
        fn=fn,
        name=name,
        cycle_length=1,
        block_length=1,
        num_parallel_calls=AUTOTUNE,
        deterministic=True,
        prefetch_input_elements=_DATASETS_AHEAD,
        buffer_output_elements=_ELEMENTS_AHEAD,
    )
