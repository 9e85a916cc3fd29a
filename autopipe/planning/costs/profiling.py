"""Measuring what each stage of a pipeline costs, while it runs."""

from __future__ import annotations

import math
import statistics
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import tensorflow as tf

from autopipe.arguments import number
from autopipe.errors import DatasetError
from autopipe.pipeline import ir, trees
from autopipe.pipeline.extract import extract
from autopipe.pipeline.signature import signature
from autopipe.pipeline.tensorflow_rewrites import has_autotune
from autopipe.pipeline.text import stage
from autopipe.planning.costs.own_caches import OwnCaches
from autopipe.planning.costs.profile import Profile, StageProfile, Stretch
from autopipe.planning.costs.stages import Counters, counters_in, model_of
from autopipe.planning.measuring.count import examples_in_batch
from autopipe.planning.measuring.failures import Failures, skipping_failures
from autopipe.planning.measuring.nothing_passes import seen_to_drop_all
from autopipe.planning.measuring.small_shuffles import with_small_shuffles
from autopipe.planning.memory.machine import Machine, resident_bytes

__all__ = ["LEAST_SECONDS", "Epoch", "Looks", "profile", "profile_of", "profile_tree", "wait_for_looks"]

LEAST_SECONDS = 0.2
# Epochs after the one that fills a cache get at least this share of the time given, in addition if necessary.
_SHARE_OF_LATER_EPOCHS = 0.5
# A look at the counters takes up to a millisecond, so that this many cost less than 1% of a run.
_SECONDS_BETWEEN_LOOKS = 0.25
_MOST_LOOKS = 256
# During training even reading a clock takes time.
_ELEMENTS_BETWEEN_CLOCKS = 8
# A buffer may take in the whole epoch before it gives its first element, and all earlier stages are gone by then.
_SECONDS_TO_FIRST_LOOK = 0.001
# An endless pipeline that drops all its elements would make this wait forever.
_MOST_SECONDS_TO_FIRST_ELEMENT = 30.0
_LAW = "A dataset must have elements to be measured"
# A look keeps the iterator that it looks at, perhaps on another thread. Whatever the garbage collector calls meanwhile
# may look too.
_looking = threading.RLock()


def profile(dataset: Any, seconds: float = 3.0) -> Profile:
    """Read a dataset as fast as it goes and return what each of its stages costs.

    The figures are TensorFlow's own, from the model by which AUTOTUNE decides (Murray et al., "tf.data: A Machine
    Learning Data Processing Framework", VLDB 2021), assigned to the stages and lines of the user.

    Where a pipeline without end may drop elements, its first one is looked for beforehand, for up to half a minute;
    elements under way are completed.

    Args:
        dataset: a ``tf.data.Dataset``. Its own Python code and random draws run as in any epoch.
        seconds: how long to read at most, and half as long again if a cache fills; the element under way is completed.

    Returns:
        The profile; printed, it is a table with a bar for each stage.

    Raises:
        ArgumentError: if ``seconds`` is below 0.2.
        DatasetError: if ``dataset`` is not a dataset, has no elements, or every element tried raises.

    >>> import tensorflow as tf, autopipe
    >>> dataset = tf.data.Dataset.range(100_000).map(lambda x: x * x).batch(10)
    >>> cost = autopipe.profile(dataset, seconds=0.3)
    >>> [each.stage for each in cost.stages]
    ['range(0, 100000)', 'map(<lambda>)']
    >>> cost.stages[1].fused_with
    'batch(10)'
    """
    seconds = number("seconds", seconds, LEAST_SECONDS, finite=True)
    return profile_tree(extract(dataset), seconds)


def profile_tree(tree: ir.Node, seconds: float, caches: OwnCaches | None = None) -> Profile:
    """Read the pipeline of a tree and return what its stages cost; see :func:`profile`.

    Args:
        tree: the pipeline.
        seconds: how long to read. If a first epoch fills a cache meanwhile, later ones are read half as long again.
        caches: where it keeps its caches; by default temporary ones.
    """
    if caches is None:
        with OwnCaches(tree) as own:
            return profile_tree(tree, seconds, own)
    _refuse_if_nothing_passes(caches.moved(with_small_shuffles(tree)))
    failures = Failures()
    read = _read(tree, caches, seconds, failures)
    found = _with_full_shuffles(profile_of(tree, read))
    return replace(found, failed=failures.count, failure=failures.first, untuned=not has_autotune(tree))


def _refuse_if_nothing_passes(tree: ir.Node) -> None:
    """Look for the first element, unless the look might use up what is given only once."""
    if any(isinstance(node, ir.Generator | ir.Opaque) for node in trees.walk(tree)):
        return
    # Elements that raise are reported when the pipeline is read.
    with suppress(tf.errors.OpError):
        at_fault = seen_to_drop_all(tree, _MOST_SECONDS_TO_FIRST_ELEMENT)
        if at_fault is not None:
            raise DatasetError(
                f"{_LAW}, but in {_MOST_SECONDS_TO_FIRST_ELEMENT:.0f} seconds none of the elements tried passes "
                f"{stage(at_fault)}. Check what that drops."
            )


def _with_full_shuffles(profile: Profile) -> Profile:
    """Return the profile with the bytes that shuffles hold once their buffers are full: small ones were measured."""
    return replace(profile, stages=tuple(_when_full(each, profile.epochs) for each in profile.stages))


def _when_full(each: StageProfile, epochs: int) -> StageProfile:
    if not isinstance(each.node, ir.Shuffle):
        return each
    elements: float = signature(each.node).cardinality
    if elements < 0:
        elements = each.elements / epochs if epochs else math.inf
    held = min(each.node.capacity, elements)
    return replace(each, buffered_bytes=round(held * each.bytes_per_element)) if held < math.inf else each


def _read(tree: ir.Node, caches: OwnCaches, seconds: float, failures: Failures) -> list[Epoch]:
    options = tf.data.Options()
    options.autotune.enabled = True
    dataset = caches.build(with_small_shuffles(tree)).with_options(options)
    end = time.perf_counter() + seconds
    read: list[Epoch] = []
    while not read or time.perf_counter() < end:
        iterator = iter(dataset)
        look = Looks(tree, weakref.ref(iterator), warming=not read)
        for _ in skipping_failures(iterator, failures):
            look.count()
            if time.perf_counter() >= end:
                look.stop()
                break
        if not look.elements and not read:
            raise DatasetError(_no_elements(tree, caches, failures))
        if not look.elements:
            # It gives its elements only once, as a generator does.
            break
        read.append(look.epoch())
        if len(read) == 1 and read[0].complete and any(trees.keeping(tree)):
            end = max(end, time.perf_counter() + _SHARE_OF_LATER_EPOCHS * seconds)
    return read


def _no_elements(tree: ir.Node, caches: OwnCaches, failures: Failures) -> str:
    if not failures.count:
        return f"{_LAW}, but the one received gave none. Check what it reads, and its filters."
    reader = next((node for node in trees.inputs_first(tree) if _is_failing_reader(node, caches)), None)
    if reader is not None:
        return f"{_LAW}, but {stage(reader)} raised: {failures.first} Check that the file exists and is complete."
    return (
        f"{_LAW}, but all {failures.count} that were tried raised: {failures.first} "
        "Fix the function or its input; single bad elements can be left out with ignore_errors()."
    )


def _is_failing_reader(node: ir.Node, caches: OwnCaches) -> bool:
    """Return whether a stage reads files and its first element fails: it then raises the same error again and again."""
    if not isinstance(node, ir.FilesReader):
        return False
    failures = Failures()
    return next(skipping_failures(iter(caches.build(node)), failures), None) is None and failures.count > 0


@dataclass(frozen=True)
class Epoch:
    """What was read in one epoch; ``looks`` are the counters at several moments, in order."""

    stretch: Stretch
    looks: tuple[Mapping[ir.Node, Counters], ...]
    complete: bool

    def in_brief(self) -> Epoch:
        """Return the epoch with only the first look and the last one of each stage: a long training has many looks."""
        if len(self.looks) < 3:
            return self
        return replace(self, looks=(self.looks[0], _last_of_each(self.looks)))


class Looks:
    """Looks at the counters of one iterator from time to time, since they are gone when it comes to its end.

    TensorFlow does not show the counters of an iterator that was swapped: earlier looks stay.

    Args:
        tree: the pipeline.
        iterator: returns an unread iterator over it; ``None`` once that is gone.
        metered: whether it counts how long its consumer waits.
        warming: whether time counts only from the first element on, since buffers fill before it.
        distance: seconds between two looks.

    Attributes:
        elements: how many elements were read.
        seconds: the time that looking took.
    """

    def __init__(
        self,
        tree: ir.Node,
        iterator: Callable[[], Any],
        *,
        metered: bool = False,
        warming: bool = False,
        distance: float = _SECONDS_BETWEEN_LOOKS,
    ) -> None:
        self.elements = 0
        # They are evaluated when the epoch is over: during training that takes several times as long.
        self._models: list[Any] = []
        self.seconds = 0.0
        self._iterator = iterator
        self._tree = tree
        self._metered = metered
        self._complete = True
        self._next_clock = 1
        self._next_count = 1
        self._distance = distance
        self._next_time = time.perf_counter() + distance
        self._warming = warming
        # Elements read, and both clocks, at the moments at which the time that counts may begin.
        self._began = [(0, time.perf_counter(), time.process_time())]
        self._given = threading.Event()
        self._watch = threading.Thread(target=self._look_until_given, name="autopipe-looks", daemon=True)
        self._watch.start()

    def count(self, elements: int = 1) -> None:
        """Note that elements were read, and look if it is time to.

        The first looks double their distance, so that the last look at a short epoch covers at least half of it.
        """
        self.elements += elements
        if self.elements >= self._next_clock:
            self._look_if_due()

    def _look_until_given(self) -> None:
        """Look while the first element is made, doubling the distance: the last look covers half of the time."""
        distance = _SECONDS_TO_FIRST_LOOK
        while not self._given.wait(distance) and self._look():
            distance *= 2

    def _look_if_due(self) -> None:
        is_first = not self._given.is_set()
        self._watch_no_more()
        now = time.perf_counter()
        if is_first:
            self._began.append((self.elements, now, time.process_time()))
        if self.elements >= self._next_count or now >= self._next_time:
            self._look()
            self._thin_out()
            self._next_count = max(2 * self._next_count, self.elements + 1)
            self._next_time = now + self._distance
        self._next_clock = min(2 * self.elements, self.elements + _ELEMENTS_BETWEEN_CLOCKS)

    def _watch_no_more(self) -> None:
        """End the looks of the other thread, so that all looks come in order."""
        self._given.set()
        self._watch.join()

    def stop(self) -> None:
        """Note that the rest of the epoch is not read."""
        self._watch_no_more()
        self._complete = False
        self._look()

    def leave_out(self, stretch: Stretch) -> None:
        """Note that the consumer did something else in the last stretch of time, which does not count."""
        self._began = [
            (before, began + stretch.seconds, cpu + stretch.cpu_seconds) for before, began, cpu in self._began
        ]

    def epoch(self) -> Epoch:
        """Return what was seen."""
        # In an epoch that is not read to its end, the start would count too much.
        without_start = (self._warming or not self._complete) and self.elements > self._began[-1][0]
        before, began, cpu = self._began[-1 if without_start else 0]
        now = time.perf_counter()
        stretch = Stretch(self.elements - before, now - began, time.process_time() - cpu)
        looks = tuple(counters_in(model, self._tree, metered=self._metered) for model in tuple(self._models))
        self.seconds += time.perf_counter() - now
        return Epoch(stretch, looks, self._complete)

    def _thin_out(self) -> None:
        """Drop every other look if there are many, and look half as often: an epoch may last for days."""
        if len(self._models) > _MOST_LOOKS:
            self._models = self._models[::2]
            self._distance *= 2

    def _look(self) -> bool:
        """Return whether there is still an iterator to look at; it may go with this look."""
        with _looking:
            return self._look_at(self._iterator())

    def _look_at(self, iterator: Any) -> bool:
        if iterator is None:
            return False
        began = time.perf_counter()
        with suppress(tf.errors.NotFoundError):
            self._models.append(model_of(iterator))
        self.seconds += time.perf_counter() - began
        return True


def wait_for_looks() -> None:
    """Wait until no look keeps an iterator that is referenced nowhere else."""
    with _looking:
        pass


def profile_of(tree: ir.Node, read: Sequence[Epoch]) -> Profile:
    """Return the cost of each stage. With a cache, only the epochs after the first count, once there are any."""
    cached = any(trees.keeping(tree))
    later = read[1:] if cached else read
    steady = later or read
    return Profile(
        stages=_stages(tree, [each.looks for each in steady if each.looks]),
        stretch=Stretch.together(each.stretch for each in steady),
        epochs=sum(each.complete for each in read),
        filling=cached and not later,
        process_bytes=resident_bytes(),
        machine=Machine.here(),
        batch=examples_in_batch(tree),
    )


def _stages(tree: ir.Node, epochs: list[tuple[Mapping[ir.Node, Counters], ...]]) -> tuple[StageProfile, ...]:
    counted: dict[ir.Node, Counters] = {}
    for looks in epochs:
        for node, counters in _last_of_each(looks).items():
            counted[node] = counted[node].plus(counters) if node in counted else counters
    seconds = {node: each.needed * each.seconds / each.elements for node, each in counted.items() if each.elements}
    total = sum(seconds.values()) or 1.0
    order = [node for node in reversed(list(trees.walk(tree))) if node in seconds]
    return tuple(
        _stage(node, counted[node], seconds[node], seconds[node] / total, _bytes_error(node, epochs))
        for node in dict.fromkeys(order)
    )


def _last_of_each(looks: Sequence[Mapping[ir.Node, Counters]]) -> dict[ir.Node, Counters]:
    """Return the latest counters of each stage: a stage that came to its end is missing from later looks."""
    return {node: counters for look in looks for node, counters in look.items()}


def _stage(node: ir.Node, count: Counters, seconds: float, share: float, bytes_error: float) -> StageProfile:
    fused = count.fused_with
    return StageProfile(
        node=node,
        place=fused if isinstance(fused, ir.Batch) else node,
        stage=stage(node),
        line=node.line,
        elements=count.elements,
        seconds_per_element=seconds,
        share=share,
        bytes_in=count.needed * count.bytes_in / count.elements,
        bytes_per_element=count.bytes_out / count.elements,
        bytes_error=bytes_error,
        buffered_bytes=count.buffered_bytes,
        parallelism=count.parallelism,
        ahead=count.ahead,
        fused_with=stage(fused) if fused is not None else None,
    )


def _bytes_error(node: ir.Node, epochs: list[tuple[Mapping[ir.Node, Counters], ...]]) -> float:
    """Return the standard error of the mean bytes of an element, from the differences of the means between looks."""
    means: list[float] = []
    for looks in epochs:
        seen = [each[node] for each in looks if node in each]
        for before, after in pairwise(seen):
            if after.elements > before.elements:
                means.append((after.bytes_out - before.bytes_out) / (after.elements - before.elements))
    return statistics.stdev(means) / len(means) ** 0.5 if len(means) > 1 else 0.0
