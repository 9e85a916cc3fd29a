"""Ten epochs of a job, first epoch and preparation included: autopipe beside other loaders."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import autopipe
from autopipe.planning.machine import Machine
from benchmarks.cases._base import Case
from benchmarks.measuring import Ratio, make_variant
from benchmarks.peers._base import all_peers

__all__ = ["EPOCHS", "STARTS", "LoaderResult", "Start", "compare_loaders", "joined", "missing_peers"]

EPOCHS = 10
# There is but one first epoch in a process, and machines are noisy.
STARTS = 5
_PLANNED = "autopipe(naive), its plan kept"
# As many as the flowers of the talk are.
_LARGER = {"a": {"count": 3670}}
# A cache of all flowers is not larger.
_CLAIMED_BYTES = 2 * 2**30
_VARIANTS = ("naive", "expert", "autopipe(naive)", "autopipe(expert)")


@dataclass(frozen=True)
class Start:
    """What a loader takes in a fresh process until its second epoch.

    Attributes:
        preparing_seconds: until it can be read: ``optimize()`` with its measuring, for autopipe.
        first_epoch_seconds: the first epoch, in which caches fill.
    """

    preparing_seconds: float
    first_epoch_seconds: float


@dataclass(frozen=True)
class LoaderResult:
    """One loader on one case.

    Attributes:
        name: the loader, or the variant of the case.
        starts: one of each process.
        epoch_seconds: each epoch after the first, in one of them.
        note: what it does otherwise.
    """

    name: str
    starts: tuple[Start, ...]
    epoch_seconds: tuple[float, ...]
    note: str = ""

    @property
    def start(self) -> Start:
        """What starting takes: of both parts the median."""
        preparing = statistics.median(each.preparing_seconds for each in self.starts)
        return Start(preparing, statistics.median(each.first_epoch_seconds for each in self.starts))

    @property
    def seconds(self) -> float:
        """All of it, with the median of its starts."""
        return statistics.median(self._seconds())

    def times(self, slower: LoaderResult) -> Ratio:
        """Return how many times as long another one takes, in the processes that both started in."""
        return Ratio.of([theirs / ours for ours, theirs in zip(self._seconds(), slower._seconds(), strict=True)])

    def _seconds(self) -> list[float]:
        others = sum(self.epoch_seconds)
        return [each.preparing_seconds + each.first_epoch_seconds + others for each in self.starts]


def joined(processes: Sequence[Sequence[LoaderResult]]) -> list[LoaderResult]:
    """Return what several processes measured of the same loaders as one result for each."""
    return [
        replace(
            of_one[-1],
            starts=tuple(start for each in of_one for start in each.starts),
            epoch_seconds=tuple(seconds for each in of_one for seconds in each.epoch_seconds),
        )
        for of_one in zip(*processes, strict=True)
    ]


def missing_peers() -> list[str]:
    """Return a line for each peer that is not installed, saying how to install it."""
    missing = (f"{peer.name} is not installed: {peer.install}" for peer in all_peers() if not peer.installed)
    return list(dict.fromkeys(missing))


def compare_loaders(
    case: Case, folder: Path, *, augment: bool, epochs: int, on_epoch: Callable[[str], None]
) -> list[LoaderResult]:
    """Start every loader in this process, and run some epochs of it, an epoch of each in turn.

    Args:
        case: the job; peers that do the same are read beside it.
        folder: an empty folder for the data.
        augment: whether the images are augmented.
        epochs: how many of each, with the first.
        on_epoch: told of the loader before each of its epochs.
    """
    make_data: Callable[..., Any] = case.make_data
    data = make_data(folder, **_LARGER.get(case.letter, {}))
    datasets: dict[str, Any] = {}

    def reading(name: str, dataset: Any) -> Callable[[], Iterable[Any]]:
        datasets[name] = dataset
        return lambda: dataset

    def with_plan() -> Any:
        plan = datasets["autopipe(naive)"].plan
        return autopipe.optimize(case.naive(data), plan=plan, ram_budget=case.ram_budget)

    makers: dict[str, Callable[[], Callable[[], Iterable[Any]]]] = {
        name: lambda name=name: reading(name, make_variant(case, name, data, tuning_seconds=0.0)) for name in _VARIANTS
    }
    makers[_PLANNED] = lambda: reading(_PLANNED, with_plan())
    peers = [peer for peer in all_peers() if peer.letter == case.letter and peer.installed]
    makers |= {peer.name: lambda peer=peer: peer.make(data, augment) for peer in peers}
    notes = {peer.name: peer.note for peer in peers}

    preparing: dict[str, float] = {}
    loaders: dict[str, Callable[[], Iterable[Any]]] = {}
    for name, make in makers.items():
        _claim_memory()
        preparing[name], loaders[name] = _timed(make)
    seconds: dict[str, list[float]] = {name: [] for name in loaders}
    for _ in range(epochs):
        for name, epoch in loaders.items():
            on_epoch(name)
            if not seconds[name]:
                _claim_memory()
            seconds[name].append(_timed(lambda epoch=epoch: _read(epoch()))[0])
    return [
        LoaderResult(name, (Start(preparing[name], first),), tuple(others), notes.get(name, ""))
        for name, (first, *others) in seconds.items()
    ]


def _claim_memory() -> None:
    """Have the machine find memory for a cache, and give it back at once.

    A virtual machine gets memory from its host when it is first used: a GiB may take 3 s then, and 0.8 s where it was
    in use just before. That is not the doing of the loader that is the first to ask.
    """
    np.ones(min(_CLAIMED_BYTES, Machine.here().available_bytes // 4), np.uint8)


def _read(batches: Iterable[Any]) -> None:
    for _ in batches:
        pass


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result
