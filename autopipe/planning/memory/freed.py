"""What happens to the memory of a batch: it is kept for the next one, or given back to the kernel, which clears it.

If TensorFlow runs with oneDNN, its own allocator keeps it. Otherwise, as on x86 without AVX-512, tensors are in the C
library's memory, and glibc gives the end of a heap back as soon as that is twice as large as the largest block freed so
far: that is two batches. Every page of the next one then faults. ``mallopt(3)`` makes it keep more.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import tensorflow as tf

from autopipe.figures import bytes_text
from autopipe.pipeline import ir, trees
from autopipe.pipeline.signature import known_bytes

__all__ = [
    "KEPT_BYTES",
    "FreedMemory",
    "allocator",
    "freed_memory",
    "give_back_free_memory",
    "keep_freed_memory",
    "who_says",
]

# A heap is never larger than 64 MiB. With 32 MiB kept, batches of 13.5 MiB still fault; with 64, processes grow twice
# as much as with 48, which is as fast.
KEPT_BYTES = 48 * 2**20
# The largest threshold of glibc: larger blocks do not come from heaps.
_LARGEST_BLOCK = 32 * 2**20
# glibc always takes blocks up to this size from heaps.
_SMALL_BLOCK = 128 * 2**10
# From mallopt(3) on M_ARENA_MAX: it counts the CPUs of the machine, whatever share of them a container has.
_HEAPS_PER_CPU = 8
# From malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_VARIABLES = ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_")
_TUNABLE = re.compile(r"glibc\.malloc\.(mmap_max|mmap_threshold|top_pad|trim_threshold)=")


@dataclass(frozen=True)
class FreedMemory:
    """Whether the C library should keep freed memory.

    Attributes:
        kept: whether it should.
        because: why, or why not.
    """

    kept: bool
    because: str


def allocator() -> str:
    """Return whose allocator the tensors of pipelines use: ``"tensorflow"``, ``"glibc"`` or ``"unknown"``.

    >>> allocator() in {"tensorflow", "glibc", "unknown"}
    True
    """
    try:
        tf.config.experimental.get_memory_info("CPU:0")
    except ValueError:
        return "glibc" if _is_glibc() and "malloc" not in os.environ.get("LD_PRELOAD", "") else "unknown"
    return "tensorflow"


def _is_glibc() -> bool:
    return sys.platform == "linux" and hasattr(ctypes.CDLL(None), "gnu_get_libc_version")


def freed_memory(tree: ir.Node, ram_budget: int, environment: Mapping[str, str] = os.environ) -> FreedMemory | None:
    """Return whether the C library should keep the memory of batches for the next ones.

    That requires tensors that come from glibc, blocks large enough to be given back and small enough to come from a
    heap, and a budget with room for them.

    Args:
        tree: the pipeline.
        ram_budget: bytes of memory that may be added.
        environment: the variables that the process was started with. If they set what glibc keeps, that applies.

    Returns:
        The answer; ``None`` if it would change nothing.
    """
    if allocator() != "glibc":
        return None
    largest = _largest_block(tree)
    if largest is None:
        return None
    variable = who_says(environment)
    if variable is not None:
        return FreedMemory(False, f"{variable} sets how much of it the C library keeps")
    kept = _HEAPS_PER_CPU * (os.cpu_count() or 1) * KEPT_BYTES
    if kept > ram_budget:
        budget = bytes_text(ram_budget)
        return FreedMemory(False, f"up to {bytes_text(kept)} would be kept, above the RAM budget of {budget}")
    return FreedMemory(
        True,
        f"the C library would give blocks of {bytes_text(largest)} back to the kernel, which clears them for the "
        f"next batch; optimize() makes it keep up to {bytes_text(KEPT_BYTES)} of each of its heaps, in this process",
    )


def keep_freed_memory() -> None:
    """Make the C library of this process keep freed memory from now on; results do not change.

    >>> keep_freed_memory()
    """
    if _is_glibc():
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK)
        library.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def give_back_free_memory() -> None:
    """Make glibc give its freed memory back to the system; other C libraries are left alone.

    >>> give_back_free_memory()
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def who_says(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the variable that sets what the C library keeps, if the process was started with one.

    >>> who_says({"MALLOC_TRIM_THRESHOLD_": "131072"})
    'MALLOC_TRIM_THRESHOLD_'
    """
    for name in _VARIABLES:
        if name in environment:
            return name
    return "GLIBC_TUNABLES" if _TUNABLE.search(environment.get("GLIBC_TUNABLES", "")) else None


def _largest_block(tree: ir.Node) -> int | None:
    """Return the largest block that would be given back but could be kept, among those whose types tell their size."""
    sizes = filter(None, map(known_bytes, trees.walk(tree)))
    return max((size for size in sizes if _SMALL_BLOCK <= size <= _LARGEST_BLOCK), default=None)
