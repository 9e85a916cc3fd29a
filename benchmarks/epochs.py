"""Ten epochs of a job, first epoch and preparation included: autopipe beside other loaders."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import autopipe
from autopipe.planning.machine import Machine
from benchmarks.cases._base import Case
from benchmarks.measuring import make_variant
from benchmarks.peers._base import all_peers

__all__ = ["EPOCHS", "LoaderResult", "compare_loaders", "missing_peers"]

EPOCHS = 10
_PLANNED = "autopipe(naive), its plan kept"
# As many as the flowers of the talk are.
_LARGER = {"a": {"count": 3670}}
# A cache of all flowers is not larger.
_CLAIMED_BYTES = 2 * 2**30
_VARIANTS = ("naive", "expert", "autopipe(naive)", "autopipe(expert)")


@dataclass(frozen=True)
class LoaderResult:
    """One loader on one case.

    Attributes:
        name: the loader, or the variant of the case.
        preparing_seconds: until it can be read: ``optimize()`` with its measuring, for autopipe.
        epoch_seconds: each epoch.
        note: what it does otherwise.
    """

    name: str
    preparing_seconds: float
    epoch_seconds: tuple[float, ...]
    note: str = ""

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.preparing_seconds + sum(self.epoch_seconds)


def missing_peers() -> list[str]:
    """Return a line for each peer that is not installed, saying how to install it."""
    missing = (f"{peer.name} is not installed: {peer.install}" for peer in all_peers() if not peer.installed)
    return list(dict.fromkeys(missing))


def compare_loaders(case: Case, folder: Path, *, augment: bool, on_epoch: Callable[[str], None]) -> list[LoaderResult]:
    """Run ten epochs of every loader, an epoch of each in turn.

    Args:
        case: the job; peers that do the same are read beside it.
        folder: an empty folder for the data.
        augment: whether the images are augmented.
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
        preparing[name], loaders[name] = _timed(make)
    seconds: dict[str, list[float]] = {name: [] for name in loaders}
    for _ in range(EPOCHS):
        for name, epoch in loaders.items():
            on_epoch(name)
            if not seconds[name]:
                _claim_memory()
            seconds[name].append(_timed(lambda epoch=epoch: _read(epoch()))[0])
    return [LoaderResult(name, preparing[name], tuple(seconds[name]), notes.get(name, "")) for name in loaders]


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
