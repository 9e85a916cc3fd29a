"""All that one run measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.ceilings import CeilingResult
from benchmarks.ends import EndsResult
from benchmarks.epochs import LoaderResult
from benchmarks.measuring import CaseResult
from benchmarks.memory import MemoryResult
from benchmarks.overhead import OverheadResult
from benchmarks.scaling import ScalingResult
from benchmarks.search import SearchResult
from benchmarks.training import TrainingResult

__all__ = ["Results"]


@dataclass(frozen=True)
class Results:
    """What each part measured; a part that did not run is empty."""

    cases: Sequence[CaseResult] = ()
    loaders: Mapping[str, Sequence[LoaderResult]] = field(default_factory=dict)
    training: Sequence[TrainingResult] = ()
    overhead: Sequence[OverheadResult] = ()
    ends: Sequence[EndsResult] = ()
    memory: Sequence[MemoryResult] = ()
    scaling: ScalingResult | None = None
    ceilings: Sequence[CeilingResult] = ()
    search: Sequence[SearchResult] = ()
