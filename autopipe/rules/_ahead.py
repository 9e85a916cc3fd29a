"""Reading datasets one after the other, with the next ones opened ahead."""

from autopipe.functions.function import Function
from autopipe.pipeline.ir import AUTOTUNE, Interleave, Node

__all__ = ["HELD_IN_TURN", "held_of_a_cycle", "in_turn"]

_DATASETS_AHEAD = 4
_ELEMENTS_AHEAD = 32
# TensorFlow opens two more datasets for each in a cycle, and reads up to two blocks and one element of each.
_OPENED_OF_EACH = 3
HELD_IN_TURN = (1 + _DATASETS_AHEAD) * _ELEMENTS_AHEAD
"""How many elements wait to be read at once."""


def held_of_a_cycle(node: Interleave, cycle_length: int) -> int:
    """Return how many elements of its datasets a parallel interleave holds at most."""
    ahead, of_each = node.prefetch_input_elements, node.buffer_output_elements
    opened = _OPENED_OF_EACH * cycle_length if ahead == AUTOTUNE else cycle_length + ahead
    return opened * (2 * node.block_length + 1 if of_each == AUTOTUNE else max(of_each, 1))


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
