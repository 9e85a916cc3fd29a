"""What a benchmark case is: one job, written three ways."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Case", "all_cases", "case_named"]


@dataclass(frozen=True)
class Case:
    """One input pipeline, as three people would write it. All three yield the same batches, but for random draws.

    Another process is given its name, and finds it by that.

    Attributes:
        letter: its place in the list, ``a`` to ``p``; variants of one job share it.
        name: short, such as ``flowers_augmented``.
        title: what it does, in a few words.
        unit: what is counted, such as ``images``.
        make_data: puts the data into an empty folder (or makes it in memory) and returns what the pipelines need.
            It takes seconds, draws from fixed seeds, and is called once.
        naive: the pipeline as a newcomer writes it.
        expert: by TensorFlow's performance guide: the usual order, AUTOTUNE everywhere, a cache where the guide
            puts one, a prefetch at the end.
        best: what a master would write by hand on stock TensorFlow.
        units_per_epoch: how many units one epoch yields, given the data.
        quick: whether it is part of the quick run.
        ram_budget: bytes that autopipe may fill, where it is not what the machine has left.
        left_as_written: whether its work is Python code that nobody declares stateless, which autopipe leaves as it was
            written: it is shown beside the same job with that declaration, and is not in the summary.
    """

    letter: str
    name: str
    title: str
    unit: str
    make_data: Callable[[Path], Any]
    naive: Callable[[Any], Any]
    expert: Callable[[Any], Any]
    best: Callable[[Any], Any]
    units_per_epoch: Callable[[Any], int]
    quick: bool = False
    ram_budget: int | None = None
    left_as_written: bool = False

    def __reduce__(self) -> Any:
        return case_named, (self.name,)


def all_cases() -> tuple[Case, ...]:
    """Return every case, by letter and name: each module of this package holds the cases of one letter."""
    package = importlib.import_module("benchmarks.cases")
    names = sorted(each.name for each in pkgutil.iter_modules(package.__path__) if each.name[0] != "_")
    modules = [importlib.import_module(f"benchmarks.cases.{name}") for name in names]
    return tuple(sorted((case for each in modules for case in each.CASES), key=lambda case: (case.letter, case.name)))


def case_named(name: str) -> Case:
    """Return the case of that name."""
    (found,) = (case for case in all_cases() if case.name == name)
    return found
