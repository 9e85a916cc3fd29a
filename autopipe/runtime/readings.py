"""The readings of an optimized dataset, one for each iterator, and the observers that are notified of them."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from autopipe.pipeline import ir, trees
from autopipe.pipeline.tensorflow_rewrites import does_by_itself, has_autotune
from autopipe.runtime.caches.filling import passing, while_filling
from autopipe.runtime.requests import Requests
from autopipe.runtime.taker import Taker

if TYPE_CHECKING:
    from autopipe.runtime.caches.memories import Memories
    from autopipe.telemetry.stall import StallCounter

__all__ = ["Form", "Observer", "Reading", "Stages", "observe", "observers", "stop_observing", "tree_after"]

Stages: TypeAlias = tuple[ir.Unary, ...]
"""The stages that were put after an optimized dataset, in the order they run."""


def tree_after(tree: ir.Node, stages: Stages) -> ir.Node:
    """Return a pipeline with stages after it."""
    for stage in stages:
        tree = stage.on(tree)
    return tree


class Form(Enum):
    """Which form of its pipeline an iterator runs."""

    PLAIN = "the stages as they stand"
    FILLING = "shuffles do not wait for the caches to be full"
    PASSING = "no cache that rules added is filled, since iterators before it were abandoned midway"
    AS_WRITTEN = "as its author wrote it, with the author's caches, since iterators before it were abandoned midway"


class Observer(Protocol):
    """Is notified of every iterator over an optimized dataset; pipelines made while one listens are metered."""

    def reading_started(self, reading: Reading) -> None:
        """Note a new iterator."""
        ...


# Weak, so that a callback left behind by a fit() that raised is not notified forever.
_observers: weakref.WeakSet[Any] = weakref.WeakSet()
# Trainings in other threads begin and end meanwhile.
_observing = threading.Lock()


def observe(observer: Observer) -> None:
    """Notify ``observer`` of every iterator made from now on."""
    with _observing:
        _observers.add(observer)


def stop_observing(observer: Observer) -> None:
    """Stop notifying ``observer``."""
    with _observing:
        _observers.discard(observer)


def observers() -> tuple[Observer, ...]:
    """Return the observers there are now."""
    with _observing:
        return tuple(_observers)


@dataclass(eq=False)
class Reading:
    """One iterator over an optimized dataset.

    Attributes:
        dataset: the ``OptimizedDataset``.
        after: the stages that were put after it, in the order they run.
        knobs: those it runs with. They lag behind the dataset's if it cannot change before its end.
        memories: where its memory caches keep their elements.
        requests: what its consumer asked for, if its end must be noted for memories or files; else ``None``.
        files: the files of its disk caches, in the order of the tree.
        writes: whether it began to write one of them; TensorFlow cannot carry that over to another pipeline.
        iterator: the iterator, or ``None`` once it is gone.
        stall: counts how long its consumer waited; ``None`` if there was no observer when it was made.
        handed_out: whether a consumer has it; ``False`` as long as it is only started early.
        form: which form of the pipeline it runs.
        restored: whether it continues with another pipeline, or from where another iterator was.
        began: when it was made, by the monotonic clock.
        taker: the thread that takes its elements.
        tuner: what tunes it, or ``None``.
    """

    dataset: Any
    after: Stages
    knobs: dict[str, int]
    memories: Memories
    requests: Requests | None = None
    files: tuple[str, ...] = ()
    writes: bool = False
    iterator: Callable[[], Any] = lambda: None
    stall: StallCounter | None = None
    handed_out: bool = True
    form: Form = Form.PLAIN
    restored: bool = False
    began: float = field(default_factory=time.monotonic)
    taker: Taker = field(default_factory=Taker)
    tuner: Callable[[], Any] = lambda: None

    @property
    def tree(self) -> ir.Node:
        """All stages that the iterator runs, with the knobs of the dataset; its own may differ."""
        return tree_after(self.run(self.dataset.tree), self.after)

    def run(self, tree: ir.Node) -> ir.Node:
        """Return the stages of a pipeline that the iterator runs, before those that were put after it."""
        match self.form:
            case Form.AS_WRITTEN:
                written: ir.Node = self.dataset.written
                return written
            case Form.PASSING:
                return passing(tree, self.after) or tree
            case Form.FILLING:
                return while_filling(tree, self.after)
        return tree

    def has_stages_of(self, other: Reading) -> bool:
        """Return whether it runs the stages that another one does, perhaps with other knobs."""
        ours, theirs = ((each.dataset, each.after, each.form) for each in (self, other))
        return ours == theirs

    @property
    def passes(self) -> bool:
        """Whether it fills no cache that rules added."""
        return self.form in (Form.PASSING, Form.AS_WRITTEN)

    @property
    def notes(self) -> bool:
        """Whether its end must be noted for its caches."""
        return self.requests is not None

    @property
    def is_filling(self) -> bool:
        """Whether its memory caches still take elements; this also works if one iterator serves all epochs.

        It covers the results of memoized maps only if it is read again and again.
        """
        given = self.stall.read().batches if self.stall else 0
        return not (self.memories.are_filled and self.dataset.results_have_settled(given))

    @cached_property
    def counts_its_stages(self) -> bool:
        """Whether TensorFlow counts what each stage does: not without its AUTOTUNE."""
        return has_autotune(self.tree)

    @property
    def ends_synchronously(self) -> bool:
        """Whether TensorFlow would put a prefetch of its own at the end of its stages."""
        return not trees.works_ahead(trees.last_stage(self.tree)) and does_by_itself(self.tree, "inject_prefetch")
