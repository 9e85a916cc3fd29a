"""Pipelines that iterators can run at once: with their files, their meter and what else an iterator needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from autopipe.pipeline import ir
from autopipe.runtime.caches.memories import Memories
from autopipe.runtime.readings import Reading, Stages
from autopipe.runtime.requests import Requests
from autopipe.telemetry.stall import StallCounter

__all__ = ["ReadyPipeline", "ReadyPipelines", "filling_at_once"]


@dataclass
class ReadyPipeline:
    """A pipeline for iterators that follow one another; those that note nothing may run it at the same time.

    Attributes:
        tree, after, files, memories, early: what it was made for.
        pipeline: what the iterators run.
        requests: counts what its iterator is asked for; ``None`` if iterators may run it at the same time.
        stall: the meter of the latest iterator.
        iterator: the latest iterator.
    """

    tree: ir.Node
    after: Stages
    files: tuple[str, ...]
    memories: Memories
    early: bool
    pipeline: Any
    requests: Requests | None
    stall: StallCounter | None
    iterator: Callable[[], Any] = lambda: None

    def may_serve(self, trees_in_use: Sequence[ir.Node], reading: Reading) -> bool:
        """Return whether it may be needed again, now that such an iterator starts."""
        same_pipeline = self.tree in trees_in_use and self.after in ((), reading.after)
        return same_pipeline and self.files == reading.files and self.memories is reading.memories

    def serves(self, tree: ir.Node, reading: Reading, *, early: bool, metered: bool) -> bool:
        """Return whether this iterator may run it now."""
        made_for = (self.tree, self.after, self.early, self.stall is not None, self.requests is not None)
        if made_for != (tree, reading.after, early, metered, reading.notes):
            return False
        return self.iterator() is None or not (metered or reading.notes)


class ReadyPipelines:
    """The pipelines that earlier iterators ran: TensorFlow has rewritten them already."""

    def __init__(self) -> None:
        self._made: list[ReadyPipeline] = []

    def one_for(
        self, reading: Reading, tree: ir.Node, trees_in_use: Sequence[ir.Node], *, early: bool, metered: bool
    ) -> ReadyPipeline | None:
        """Return a pipeline that an iterator may run; those that no later iterator will need are dropped."""
        self._made = [each for each in self._made if each.may_serve(trees_in_use, reading)]
        for ready in self._made:
            if ready.serves(tree, reading, early=early, metered=metered):
                ready.stall = ready.stall.hand_on() if ready.stall is not None else None
                if ready.requests is not None:
                    ready.requests.begin()
                return ready
        return None

    def add(self, ready: ReadyPipeline) -> None:
        """Keep a pipeline that was made for an iterator, for later ones."""
        self._made.append(ready)

    def clear(self) -> None:
        """Drop all."""
        self._made.clear()


def filling_at_once(dataset: Any) -> Any:
    """Return a dataset whose iterators fill their buffers before the first element is asked for.

    It holds the dataset given, which TensorFlow would free otherwise.
    """
    options = tf.data.Options()
    options.experimental_warm_start = True
    started = dataset.with_options(options)
    started._autopipe_owner = dataset
    return started
