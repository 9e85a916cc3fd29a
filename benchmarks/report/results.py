"""All that was measured, and by which run."""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cattrs

from autopipe.planning.memory.freed import allocator
from autopipe.planning.memory.machine import Machine
from benchmarks.ceilings import CeilingResult
from benchmarks.ends import EndsResult
from benchmarks.epochs import LoaderResult
from benchmarks.measuring import CaseResult
from benchmarks.memory import MemoryResult
from benchmarks.overhead import OverheadResult
from benchmarks.scaling import ScalingResult
from benchmarks.search import SearchResult
from benchmarks.training import TrainingResult
from benchmarks.uses import UsesResult

__all__ = ["Made", "Results", "commit_of", "joined", "read", "store"]

_FILE = "results.json"
_OF = " of "
_PACKAGES = ("tensorflow", "keras", "numpy", "keras-autopipe")
# It decides what memory costs: with oneDNN, which not every processor has TensorFlow use, it is TensorFlow's own.
_ALLOCATORS = {"tensorflow": "TensorFlow's allocator", "glibc": "glibc", "unknown": "the C library"}


@dataclass(frozen=True)
class Made:
    """How a part was measured.

    Attributes:
        command: the command.
        day: when it came to its end.
        commit: of which code; empty outside a checkout.
        machine: where, and with which versions.
    """

    command: str
    day: str
    commit: str
    machine: str

    @classmethod
    def now(cls, command: str) -> Made:
        """Return what is so now."""
        machine = Machine.here()
        versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
        return cls(
            command,
            f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
            commit_of(Path(__file__).parents[2]),
            f"{machine.cores:g} cores ({_processor()}), {machine.memory_bytes / 2**30:.0f} GiB, {platform.machine()}, "
            f"Python {platform.python_version()}, {versions}, tensors from {_ALLOCATORS[allocator()]}",
        )


def _processor() -> str:
    """Return what the processor calls itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())


@dataclass(frozen=True)
class Results:
    """What each part measured; a part that did not run is empty, and is not among the ``made``."""

    made: Mapping[str, Made] = field(default_factory=dict)
    cases: Sequence[CaseResult] = ()
    loaders: Mapping[str, Sequence[LoaderResult]] = field(default_factory=dict)
    training: Sequence[TrainingResult] = ()
    uses: Sequence[UsesResult] = ()
    overhead: Sequence[OverheadResult] = ()
    ends: Sequence[EndsResult] = ()
    memory: Sequence[MemoryResult] = ()
    scaling: ScalingResult | None = None
    ceilings: Sequence[CeilingResult] = ()
    search: Sequence[SearchResult] = ()

    def with_part(self, part: str, measured: Any, made: Made, *, only: str = "") -> Results:
        """Return the results with those of one part in place of what it measured before.

        Args:
            part: its name.
            measured: its results.
            made: how it was measured.
            only: the cases that were measured, where others are to stay as they were; empty for all.
        """
        if not only:
            others = {name: each for name, each in self.made.items() if name.partition(_OF)[0] != part}
            return replace(self, **{part: measured}, made={**others, part: made})
        merged = joined(getattr(self, part), measured)
        others = _without(self.made, part, only.split(","))
        if isinstance(merged, Mapping | Sequence):
            rows = set(merged if isinstance(merged, Mapping) else (name for _, name in map(_place, merged)))
            if rows <= {name for each in (*others, f"{part}{_OF}{only}") for name in _cases_of(each, part)}:
                # Of what was measured of the whole part, no row is left.
                others.pop(part, None)
        return replace(self, **{part: merged}, made={**others, f"{part}{_OF}{only}": made})


def _cases_of(name: str, part: str) -> list[str]:
    """Return the cases that an entry names, if it is one of some cases of a part."""
    of_part, of, cases = name.partition(_OF)
    return cases.split(",") if of and of_part == part else []


def _without(made: Mapping[str, Made], part: str, anew: Collection[str]) -> dict[str, Made]:
    """Return how the rest was measured, where some cases of a part are measured anew."""
    others = {}
    for name, each in made.items():
        of_part, of, cases = name.partition(_OF)
        left = [case for case in cases.split(",") if case not in anew] if of_part == part else [cases]
        if left or not of:
            others[f"{of_part}{of}{','.join(left)}" if of else name] = each
    return others


def joined(before: Any, measured: Any) -> Any:
    """Return the rows of some cases among those of others that were measured before."""
    if not before:
        return measured
    if isinstance(measured, Mapping):
        return {**before, **measured}
    if not isinstance(measured, Sequence):
        return measured
    anew = set(map(_place, measured))
    return sorted([*(each for each in before if _place(each) not in anew), *measured], key=_place)


def _place(row: Any) -> tuple[str, str]:
    return getattr(row, "letter", ""), getattr(row, "name", "")


def store(results: Results, folder: Path) -> None:
    """Write ``results.json`` into a folder."""
    (folder / _FILE).write_text(json.dumps(asdict(results), indent=1) + "\n")


def read(folder: Path) -> Results:
    """Return the results that stand in a folder; none if there are none."""
    file = folder / _FILE
    return cattrs.structure(json.loads(file.read_text()), Results) if file.exists() else Results()


def commit_of(checkout: Path) -> str:
    """Return the short name of the commit that is checked out, and whether code was changed since; else ``""``."""

    def git(*given: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", "-C", str(checkout), *given], capture_output=True, text=True, check=False)

    name = git("rev-parse", "--short", "HEAD").stdout.strip()
    is_changed = bool(name) and git("diff", "--quiet", "HEAD", "--", "*.py", "*.toml").returncode == 1
    return f"{name} with changes" if is_changed else name
