"""The table of peak memory."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measuring import REFERENCE
from benchmarks.memory import EPOCHS, NOISE_BYTES, MemoryResult, VariantMemory

__all__ = ["memory_lines"]

_MEGABYTE = 1e6
_OURS = ("autopipe(naive)", "autopipe(expert)")


def memory_lines(results: Sequence[MemoryResult]) -> list[str]:
    """Return a table with a row for each pipeline that autopipe made."""
    if not results:
        return []
    lines = [
        "## Peak memory",
        "",
        f"Resident memory in MB above what the process held before the pipeline was made, at its peak while {EPOCHS} "
        f"epochs were read, {_processes(results)}. What TensorFlow, XLA and autopipe take when they are first used, "
        f"{_loaded(results)} MB, is held before. Allowed is what *expert* takes and what autopipe says the caches take "
        f"that it added; less than {_megabytes(NOISE_BYTES)} MB, or than the processes of a variant lie apart, is "
        "noise. The expert's peak holds a cache of its own; the next column compares each pipeline with the one it was "
        "made of. `optimize()` has a peak of its own, and leaves some memory with the process, which counts in what "
        "follows." + _environment(results),
        "",
        "| | pipeline | a batch | naive | expert | best by hand | optimized | peak | stated cache "
        "| above what is allowed | above as written and that cache | peak of `optimize()` | left by it |",
        "|---|---|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        written = " | ".join(_peak(result.variants[variant]) for variant in ("naive", REFERENCE, "best"))
        for number, variant in enumerate(_OURS):
            ours = result.variants[variant]
            batch = _tenths(ours.batch) if ours.batch else "?"
            place = f"| {result.letter} | {result.name} | {batch} | {written} " if not number else "| | | | | | "
            lines.append(
                f"{place}| {variant} | {_peak(ours)} | {_megabytes(ours.stated_cache)} | {_verdict(result, variant)} "
                f"| {_own_verdict(result, variant)} | {_megabytes(ours.preparing)} | {_megabytes(ours.left)} |"
            )
    return [*lines, "", _conclusion(results), ""]


def _processes(results: Sequence[MemoryResult]) -> str:
    """Return how often each variant ran."""
    runs = max(len(memory.runs) for result in results for memory in result.variants.values())
    if runs == 1:
        return "each variant once, in a process of its own"
    return f"each variant in {runs} processes of its own; medians, with how far these lie apart"


def _environment(results: Sequence[MemoryResult]) -> str:
    """Return what is to be said of the variables that all processes ran with."""
    named = " ".join(f"{name}={value}" for name, value in results[0].environment.items())
    if not named or any(each.environment != results[0].environment for each in results):
        return ""
    return (
        f" The processes ran with `{named}`: without it the C library keeps up to 64 MB of freed memory for each "
        "thread, and the peaks of one and the same variant lie 100 MB apart."
    )


def _loaded(results: Sequence[MemoryResult]) -> str:
    return _megabytes(max(memory.loaded for result in results for memory in result.variants.values()))


def _peak(memory: VariantMemory) -> str:
    spread = f" (±{_megabytes(memory.reading_spread / 2)})" if len(memory.runs) > 1 else ""
    return f"{_megabytes(memory.reading)}{spread}"


def _megabytes(count: float) -> str:
    return f"{count / _MEGABYTE:,.0f}"


def _tenths(count: float) -> str:
    return f"{count / _MEGABYTE:,.1f}"


def _verdict(result: MemoryResult, variant: str) -> str:
    above = result.above_allowed(variant)
    return f"**{_megabytes(above)}**" if result.is_above(variant) else _megabytes(above)


def _own_verdict(result: MemoryResult, variant: str) -> str:
    above = _megabytes(result.above_written(variant))
    return f"**{above}**" if result.is_above_written(variant) else above


def _conclusion(results: Sequence[MemoryResult]) -> str:
    above = [f"{each.name} ({variant})" for each in results for variant in _OURS if each.is_above(variant)]
    if not above:
        return "Nowhere is autopipe's peak above the expert's and the stated cache together."
    return (
        f"Above the expert's peak and the stated cache together: {', '.join(above)}. It may be batches under way, with "
        "the elements they are made of, of which a pipeline that its consumer always waits for has fewer, and what "
        "TensorFlow's allocator keeps in pieces that fit nothing (benchmarks/README.md)."
    )
