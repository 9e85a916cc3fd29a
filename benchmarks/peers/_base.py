"""What a peer is: another way to get the batches of a job."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["BATCH", "SIZE", "Peer", "all_peers"]

SIZE = (192, 192)
BATCH = 32


@dataclass(frozen=True)
class Peer:
    """Another loader.

    Attributes:
        name: as people call it.
        package: the module it needs.
        install: the command that installs that.
        make: given the data of the job and whether to augment, returns a function that gives the batches of one epoch.
            Of the flower job these are float images of 192x192 in [0, 1], 32 at a time, from a folder of class folders.
        note: what it does otherwise than the pipelines, if anything.
        letter: that of the job.
        ready: whether what it needs besides the module is there.
    """

    name: str
    package: str
    install: str
    make: Callable[[Any, bool], Callable[[], Iterable[Any]]]
    note: str = ""
    letter: str = "a"
    ready: Callable[[], bool] = lambda: True

    @property
    def installed(self) -> bool:
        """Whether it can run here."""
        try:
            return importlib.util.find_spec(self.package) is not None and self.ready()
        except ModuleNotFoundError:  # Of a.b, a is missing.
            return False


def all_peers() -> tuple[Peer, ...]:
    """Return every peer: each module of this package is one."""
    package = importlib.import_module("benchmarks.peers")
    names = sorted(each.name for each in pkgutil.iter_modules(package.__path__) if each.name[0] != "_")
    return tuple(importlib.import_module(f"benchmarks.peers.{name}").PEER for name in names)
