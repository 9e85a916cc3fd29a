"""The limits of knobs, whatever the pipeline. Plans are read without TensorFlow, so this module does not need it."""

from __future__ import annotations

__all__ = ["PER_CORE", "largest_number", "largest_to_set"]

# Fields whose values scale with the cores; what a buffer holds does not depend on the cores.
PER_CORE = frozenset({"max_intra_op_parallelism", "num_parallel_calls", "num_parallel_reads", "size"})
# No machine can start more threads, or calls at once, than this.
_MOST_AT_ONCE = 10_000
_LARGEST_BUFFER = 2**31 - 1
_LARGEST_SHUFFLE = 2**63 - 1
# Authors may use a larger number to mean all elements, but otherwise TensorFlow may run out of memory and crash.
_LARGEST_SHUFFLE_TO_SET = 10**8


def largest_number(name: str) -> int:
    """Return the largest number that a knob of that name can be, whatever the pipeline.

    >>> largest_number("map[load].num_parallel_calls"), largest_number("prefetch.buffer_size")
    (10000, 2147483647)
    """
    stage, _, field = name.rpartition(".")
    if field in PER_CORE:
        return _MOST_AT_ONCE
    return _LARGEST_SHUFFLE if stage.startswith("shuffle") else _LARGEST_BUFFER


def largest_to_set(name: str) -> int:
    """Return the largest number that a knob of that name may be set to.

    >>> largest_to_set("shuffle.buffer_size")
    100000000
    """
    return min(largest_number(name), _LARGEST_SHUFFLE_TO_SET) if name.startswith("shuffle") else largest_number(name)
