"""Ten epochs of a job, first epoch and preparation included: autopipe beside other loaders, each in its own process.

``python -m benchmarks.epochs --case NAME --loader L --folder DIR --epochs N`` is such a process; it prints one line of
JSON.
"""

from __future__ import annotations

import importlib
import json
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import autopipe
from autopipe.planning.memory.machine import Machine
from autopipe.planning.memory.pages import ASKING, ASKING_TEXT, HugePages
from autopipe.quiet import load_tensorflow
from benchmarks.cases._base import Case, case_named
from benchmarks.children import load_data, run_child, save_data
from benchmarks.measuring import Ratio, make_variant, reordered
from benchmarks.peers._base import Peer, all_peers

__all__ = [
    "EPOCHS",
    "PLANNER",
    "PROCESSES",
    "LoaderResult",
    "LoaderRun",
    "compare_loaders",
    "missing_peers",
    "run_loader",
]

EPOCHS = 10
# There is but one first epoch in a process, and machines are noisy.
PROCESSES = 5
PLANNER = "autopipe(naive)"
_PLANNED = "autopipe(naive), its plan kept"
# As many as the flowers of the talk are.
_LARGER = {"a": {"count": 3670}}
# A cache of all flowers is not larger.
_CLAIMED_BYTES = 2 * 2**30
_VARIANTS = ("naive", "expert", PLANNER, _PLANNED, "autopipe(expert)")
_PLAN = "plan.json"
# What differs is only how the process is started; what "autopipe doctor" says of it is judged by these.
_IN_LARGE_PAGES = {f"{name}, 2 MiB pages": name for name in ("expert", PLANNER)}


@dataclass(frozen=True)
class LoaderRun:
    """What a loader takes in a process of its own, in seconds.

    Attributes:
        preparing: until it can be read: ``optimize()`` with its measuring, for autopipe.
        epochs: each epoch; in the first, caches fill.
        least: what each epoch would take if all cores shared the process's work on it and never waited. What other
            processes of the loader work is not in it.
    """

    preparing: float
    epochs: tuple[float, ...]
    least: tuple[float, ...] = ()

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.preparing + sum(self.epochs)


@dataclass(frozen=True)
class LoaderResult:
    """One loader on one case.

    Attributes:
        name: the loader, or the variant of the case.
        runs: one for each process.
        note: what it does otherwise.
    """

    name: str
    runs: tuple[LoaderRun, ...]
    note: str = ""

    @property
    def seconds(self) -> float:
        """All that a run takes, the median."""
        return statistics.median(run.seconds for run in self.runs)

    @property
    def preparing(self) -> float:
        """What a run takes to prepare, the median."""
        return statistics.median(run.preparing for run in self.runs)

    @property
    def first_epoch(self) -> float:
        """What the first epoch of a run takes, the median."""
        return statistics.median(run.epochs[0] for run in self.runs)

    @property
    def later_epoch(self) -> float:
        """What an epoch after the first takes, the median of those of all runs."""
        return statistics.median(seconds for run in self.runs for seconds in run.epochs[1:])

    @property
    def least(self) -> float:
        """What all epochs of a run take at the least on so many cores, the median; 0 where it was not measured."""
        return statistics.median(sum(run.least) for run in self.runs)

    def times(self, slower: LoaderResult) -> Ratio:
        """Return how many times as long another one takes, run by run."""
        return Ratio.of([theirs.seconds / ours.seconds for ours, theirs in zip(self.runs, slower.runs, strict=True)])


def missing_peers() -> list[str]:
    """Return a line for each peer that is not installed, saying how to install it."""
    missing = (f"{peer.name} is not installed: {peer.install}" for peer in all_peers() if not peer.installed)
    return list(dict.fromkeys(missing))


def compare_loaders(
    case: Case, folder: Path, *, processes: int, epochs: int, on_run: Callable[[str], None] = lambda loader: None
) -> list[LoaderResult]:
    """Run every loader of a job in fresh processes, one process of each in turn.

    In one process a loader would find the memory that is left by those before it.

    Args:
        case: the job: the processes find it by its name. Its data is made here, in ``folder``.
        folder: an empty folder.
        processes: for each loader.
        epochs: how many each process reads.
        on_run: told of the loader before each process.
    """
    save_data(case, folder, **_LARGER.get(case.letter, {}))
    if _PLANNED in _VARIANTS:
        # It is of an earlier run than all that are compared.
        run_child("benchmarks.epochs", {}, case=case.name, loader=PLANNER, folder=folder, epochs=1)
    notes = dict.fromkeys(_VARIANTS, "") | _notes_on_pages() | {peer.name: peer.note for peer in _peers_of(case)}
    runs: dict[str, list[LoaderRun]] = {name: [] for name in notes}
    for number in range(processes):
        for name in reordered(list(notes), number):
            on_run(name)
            loader, environment = (_IN_LARGE_PAGES[name], ASKING) if name in _IN_LARGE_PAGES else (name, {})
            options = {"case": case.name, "loader": loader, "folder": folder, "epochs": epochs}
            figures = run_child("benchmarks.epochs", environment, **options)
            runs[name].append(LoaderRun(figures["preparing"], tuple(figures["epochs"]), tuple(figures["least"])))
    return [LoaderResult(name, tuple(runs[name]), note) for name, note in notes.items()]


def run_loader(case: Case, loader: str, folder: Path, epochs: int) -> LoaderRun:
    """Start a loader in this process, and read some epochs of it.

    Args:
        case: the job.
        loader: the name of a peer, or of a variant of the case.
        folder: where :func:`~benchmarks.children.save_data` has put its data.
        epochs: how many, with the first.
    """
    _start_tensorflow()
    for peer in _peers_of(case):
        if peer.name == loader:
            importlib.import_module(peer.package)
    _claim_memory()
    (preparing, _), epoch = _timed(lambda: _made(case, loader, folder))
    _claim_memory()
    taken, worked = zip(*(_timed(lambda: _read(epoch()))[0] for _ in range(epochs)), strict=True)
    cores = Machine.here().cores
    return LoaderRun(preparing, taken, tuple(seconds / cores for seconds in worked))


def _notes_on_pages() -> dict[str, str]:
    """Return the variants that ask for large pages, with how; none where that changes nothing."""
    pages = HugePages.here()
    if pages is None or not pages.would_be_given:
        return {}
    return dict.fromkeys(_IN_LARGE_PAGES, f"started with {ASKING_TEXT}")


def _peers_of(case: Case) -> list[Peer]:
    return [peer for peer in all_peers() if peer.letter == case.letter and peer.installed]


def _made(case: Case, loader: str, folder: Path) -> Callable[[], Iterable[Any]]:
    """Return what reads an epoch of a loader."""
    data, plan = load_data(folder), folder / _PLAN
    if loader not in _VARIANTS:
        (peer,) = (each for each in _peers_of(case) if each.name == loader)
        return peer.make(data, "augmented" in case.name)
    if loader == _PLANNED:
        dataset = autopipe.optimize(case.naive(data), plan=plan, ram_budget=case.ram_budget)
    else:
        dataset = make_variant(case, loader, data, tuning_seconds=0.0)
    if loader == PLANNER and not plan.exists():
        dataset.plan.save(plan)
    return lambda: dataset


def _start_tensorflow() -> None:
    """Run a small pipeline: where a model is trained TensorFlow has started, whatever loads the data."""
    import tensorflow as tf

    _read(tf.data.Dataset.range(4).batch(2))


def _claim_memory() -> None:
    """Have the machine find memory for a cache, and give it back at once.

    A virtual machine gets memory from its host when it is first used: a GiB may take 3 s then, and 0.8 s where it was
    in use just before. That is not the doing of the loader that is the first to ask.
    """
    np.ones(min(_CLAIMED_BYTES, Machine.here().available_bytes // 4), np.uint8)


def _read(batches: Iterable[Any]) -> None:
    for _ in batches:
        pass


def _timed(call: Callable[[], Any]) -> tuple[tuple[float, float], Any]:
    """Return the seconds that passed, those that this process worked, and what the call returned."""
    began, worked = time.perf_counter(), time.process_time()
    result = call()
    return (time.perf_counter() - began, time.process_time() - worked), result


def main(
    case: Annotated[str, typer.Option(help="The name of a case.")],
    loader: Annotated[str, typer.Option(help="A peer, or who wrote the pipeline: naive, expert, autopipe(naive), ...")],
    folder: Annotated[Path, typer.Option(help="Where the data of the case has been put.")],
    epochs: Annotated[int, typer.Option(min=1, help="How many are read.")],
) -> None:
    """Print what one loader takes, as JSON."""
    load_tensorflow()
    print(json.dumps(asdict(run_loader(case_named(case), loader, folder, epochs))))


if __name__ == "__main__":
    typer.run(main)
