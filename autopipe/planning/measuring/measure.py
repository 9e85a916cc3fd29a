"""Answers about a pipeline that come from running it on a sample of the user's own elements."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import Any

import tensorflow as tf

from autopipe.functions.function import Function
from autopipe.functions.parts.draws import undisturbed_generators
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.signature import known_bytes, signature
from autopipe.pipeline.visibility import who_has_side_effects, who_would_see
from autopipe.planning.disk.content import UnknownContentError
from autopipe.planning.disk.disk_cache import MOST_ELEMENTS, DiskCache
from autopipe.planning.measuring.caching import caching_cost
from autopipe.planning.measuring.count import most_elements, most_known
from autopipe.planning.measuring.differences import difference
from autopipe.planning.measuring.file_bytes import times_as_large
from autopipe.planning.measuring.held_samples import HeldSamples, without_end
from autopipe.planning.measuring.later_epochs import in_later_epochs
from autopipe.planning.measuring.nothing_passes import ending_in_time, refuse_if_nothing_passes
from autopipe.planning.measuring.questions import Question, asked
from autopipe.planning.measuring.samples import (
    SAMPLE_BYTES,
    bytes_of,
    from_several_places,
    held_beside,
    take_sample,
    without_calls,
)
from autopipe.planning.measuring.stopwatch import compare_speeds, longer_than
from autopipe.planning.measuring.time_left import TimeLeft
from autopipe.planning.measuring.turns import elements_in_one_turn, taking_turns
from autopipe.planning.memory.ledger import promised_bytes
from autopipe.planning.memory.machine import Machine, queued_by_thread, queued_since, resident_bytes
from autopipe.rules import MeasurementError
from autopipe.sentences import one_sentence

__all__ = ["FASTEST_CONSUMER", "SampleMeasurements"]

_CACHE_SAMPLE_ELEMENTS = 32
# A sample of at least this many bytes is as good as a full one.
_LARGE_SAMPLE = SAMPLE_BYTES // 4
# No step of a Keras model is shorter, whatever the model: a small share of it goes unnoticed.
FASTEST_CONSUMER = 500e-6
_LITTLE_GROWTH = 16 * 2**20
_ELEMENTS_AHEAD = 8
_SPEED_SECONDS = 3.0
# A pipeline that gives no more elements is abandoned after this many seconds.
_MOST_SECONDS = 2 * _SPEED_SECONDS
_WORKING_SECONDS, _WORKING_CALLS = 0.05, 64
_COMPARED_SECONDS = 1.0
# If elements take long, as whole batches do, fewer are enough.
_FEW_OF_SLOW, _MOST_COMPARED_SECONDS = 4, 2.0
_FEWEST_COMPARED = 16
_END = object()


@dataclass(eq=False)
class SampleMeasurements:
    """Runs samples and remembers them, so that several questions about one place run it only once.

    Args:
        ram_budget: bytes of memory that may be added; by default half of what this process can still get, less what
            its other datasets were promised.
        seconds: how long to measure, in all; after that, questions are not answered.
        disk: where to keep caches that are too large for memory; ``None`` for nowhere.
    """

    ram_budget: int = field(default_factory=lambda: max(Machine.here().available_bytes // 2 - promised_bytes(), 0))
    seconds: float = float("inf")
    disk: DiskCache | None = None

    _time: TimeLeft = field(init=False, repr=False)
    _resident: int = field(default_factory=resident_bytes, init=False, repr=False)
    _known_sizes: dict[ir.Node, list[int]] = field(default_factory=dict, init=False, repr=False)
    _growths: dict[ir.Node, float] = field(default_factory=dict, init=False, repr=False)
    _held: HeldSamples = field(default_factory=HeldSamples, init=False, repr=False)
    _speeds: dict[Hashable, tuple[float, float, float]] = field(default_factory=dict, init=False, repr=False)
    _workings: dict[Hashable, tuple[float, float]] = field(default_factory=dict, init=False, repr=False)
    _costs: dict[tuple[ir.Node, bool], tuple[float, float]] = field(default_factory=dict, init=False, repr=False)
    _differences: dict[Hashable, str | None] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._time = TimeLeft(self.seconds)

    def bytes_beside_caches(self, pipeline: ir.Node) -> int:
        """Return the growth of the process since measuring began, plus the bytes of elements that are made ahead.

        TensorFlow's allocator keeps memory once it has it.
        """
        grown = resident_bytes() - self._resident
        ahead = _ELEMENTS_AHEAD * (signature(pipeline).element_bytes or 0)
        for node in trees.walk(pipeline):
            if isinstance(node, ir.Mapping) and node.num_parallel_calls:
                ahead += max(node.num_parallel_calls, 0) * (signature(node).element_bytes or 0)
        return (grown if grown > _LITTLE_GROWTH else 0) + ahead

    @property
    def cores(self) -> float:
        """How many cores this process may use."""
        return Machine.here().cores

    @property
    def follows_plan(self) -> bool:
        """Whether a plan is applied again, which it is not here."""
        return False

    @property
    def exhausted(self) -> str | None:
        """Why nothing more can be measured of a part; ``None`` while there is time."""
        return self._time.exhausted

    def give_up(self, because: str) -> None:
        """Answer nothing more."""
        self._time.give_up(because)

    def element_bytes(self, node: ir.Node) -> float:
        """Return the bytes of one element: known from its type, or else the mean of a sample."""
        return statistics.mean(self._sizes(node))

    def cache_bytes(self, node: ir.Node) -> int:
        """Return the bytes that a cache of all elements takes: the mean, plus two standard errors, times their number.

        If records of files are larger on average than the first ones, so are the elements made of them.
        """
        count = most_elements(node)
        sizes = self._sizes(node)
        error = statistics.stdev(sizes) / len(sizes) ** 0.5 if len(sizes) > 1 else 0.0
        mean = statistics.mean(sizes)
        beside = held_beside(signature(node).element_spec, mean, differ=error > 0)
        return int(((mean + 2 * error) * self._growth(node, sizes) + beside) * count)

    def most_elements(self, node: ir.Node) -> int:
        """Return the largest number of elements there may be."""
        return most_elements(node)

    def _sizes(self, node: ir.Node) -> list[int]:
        known = known_bytes(node)
        if known is not None:
            return [known]
        if node not in self._known_sizes:
            places = from_several_places(node, _CACHE_SAMPLE_ELEMENTS)
            few = -(-_CACHE_SAMPLE_ELEMENTS // len(places))
            self._known_sizes[node] = [bytes_of(each) for place in places for each in self._sample(place, few)]
        return self._known_sizes[node]

    def _growth(self, node: ir.Node, sizes: Sequence[int]) -> float:
        if known_bytes(node) is not None:
            return 1.0
        if node not in self._growths:
            if self.exhausted:
                raise MeasurementError(self.exhausted)
            with _failures_are_unmeasurable():
                self._growths[node] = times_as_large(node, sizes)
        return self._growths[node]

    def same(self, before: ir.Node, after: ir.Node, over: ir.Node, exact: bool) -> str | None:
        """Run both on the same elements and return the first difference."""
        question = (before, after, over, exact)
        if question not in self._differences:
            with _failures_are_unmeasurable(), undisturbed_generators(_functions(before, after, over)):
                self._differences[question] = self._first_difference(before, after, over, exact)
        return self._differences[question]

    def _first_difference(self, before: ir.Node, after: ir.Node, over: ir.Node, exact: bool) -> str | None:
        source = self._sample_source(over)
        pairs = zip_longest(_run(before, over, source), _run(after, over, source), fillvalue=_END)
        began, held = time.perf_counter(), 0
        for compared, (left, right) in enumerate(pairs):
            taken = time.perf_counter() - began
            if compared >= _FEWEST_COMPARED and (held > SAMPLE_BYTES or taken > _COMPARED_SECONDS):
                return None
            if compared >= _FEW_OF_SLOW and taken > _MOST_COMPARED_SECONDS:
                return None
            if left is _END or right is _END:
                return "there are more of one than of the other"
            found = difference(left, right, exact)
            if found:
                return found
            held += bytes_of(left)
        return None

    def speed(self, before: ir.Node, after: ir.Node, over: ir.Node | None) -> tuple[float, float, float]:
        """Time short windows of both, one after the other, and compare neighbours."""
        question = asked(before, after, over)
        lost = self._lost_with_fewer_calls(question)
        if lost is not None:
            return lost
        if question.alike not in self._speeds:
            if self.exhausted:
                raise MeasurementError(self.exhausted)
            with _failures_are_unmeasurable(), undisturbed_generators(_functions(before, after)):
                self._speeds[question.alike] = self._compare(before, after, over)
        return self._speeds[question.alike]

    def _lost_with_fewer_calls(self, question: Question) -> tuple[float, float, float] | None:
        """Return what was measured with fewer calls at once on both sides, if more cannot make up for it.

        Parallel calls make a side at most as many times as fast as there are cores. Beyond that, only the side with
        more calls gains, which is ``before``.
        """
        for calls, gain in ((None, Machine.here().cores), (ir.AUTOTUNE, 1)):
            fewer = question.with_calls(calls)
            known = self._speeds.get(fewer.alike) if fewer != question else None
            if known is not None and known[2] * gain < 1:
                return known
        return None

    def working(self, mapped: ir.Map) -> tuple[float, float]:
        """Call the function for one element after the other; all CPU time of the process meanwhile counts as work.

        So does the time that its threads wait for a core: on a busy machine that is longer than a call.
        """
        alone = replace(mapped, num_parallel_calls=None, synchronous=True)
        question = asked(alone, alone, alone.input).alike
        if question not in self._workings:
            self._workings[question] = self._time_alone(alone)
        return self._workings[question]

    def _time_alone(self, alone: ir.Map) -> tuple[float, float]:
        with _failures_are_unmeasurable(), undisturbed_generators(_functions(alone)):
            elements = _run(alone, alone.input, self._sample_source(alone.input))
            next(elements)
            taken, worked, queued, calls = time.perf_counter(), time.process_time(), queued_by_thread(), 0
            for _ in elements:
                calls += 1
                if calls == _WORKING_CALLS or time.perf_counter() - taken > _WORKING_SECONDS:
                    break
            taken = time.perf_counter() - taken
            worked = time.process_time() - worked + queued_since(queued)
        if not calls:
            raise MeasurementError("the pipeline has one element only")
        return taken / calls, worked / calls

    @property
    def disk_free(self) -> int | None:
        """Free bytes in the folder for caches."""
        return None if self.disk is None else self.disk.free

    def keep_on_disk(self, node: ir.Node) -> str:
        """Return the file in which the elements of ``node`` are, or will be, kept."""
        if self.disk is None:
            raise MeasurementError("no folder for it was given with disk_cache=")
        number = most_elements(node)
        if number > MOST_ELEMENTS:
            raise MeasurementError(f"a file cache holds {MOST_ELEMENTS:,} elements, and there may be {number:,}")
        try:
            return self.disk.filename(node)
        except UnknownContentError as unknown:
            raise MeasurementError(str(unknown)) from unknown
        except OSError as error:
            raise MeasurementError(f"the folder cannot be written to ({error})") from error

    def caching(self, node: ir.Node, *, on_disk: bool = False) -> tuple[float, float]:
        """Time the same elements once as they are made, and then as a cache serves them.

        The result also holds if later rules buffer some of them, or make more at once.
        """
        question = without_calls(node), on_disk
        if question not in self._costs:
            self._costs[question] = self._time_caching(node, on_disk)
        return self._costs[question]

    def filling(self, node: ir.Node, buffer_size: float) -> tuple[int, float]:
        """Multiply the number of elements by the seconds it takes to make one after the other."""
        held = int(min(buffer_size, self.most_elements(node)))
        making, _ = self.caching(node)
        return held, held * making

    def saving(self, node: ir.Node) -> float:
        """Return the least seconds of work per element that a cache of ``node`` saves.

        The saving of a cache before a map is such a lower bound if its elements are no smaller than those of the map.
        """
        upstream = node
        while isinstance(upstream, ir.Map):
            upstream = upstream.input
            known = self._costs.get((without_calls(upstream), False))
            if known is not None and self.element_bytes(upstream) >= self.element_bytes(node):
                making, reading = known
                return making - reading
        making, reading = self.caching(node)
        return making - reading

    def _time_caching(self, node: ir.Node, on_disk: bool) -> tuple[float, float]:
        self._refuse_to_run(node)
        with _failures_are_unmeasurable(), undisturbed_generators(_functions(node)):
            folder = self.disk.folder if on_disk and self.disk else None
            cost = caching_cost(node, self.element_bytes(node), folder, self.ram_budget)
        if len(cost.made) >= _FEWEST_COMPARED and sum(map(bytes_of, cost.made)) >= _LARGE_SAMPLE:
            with suppress(MeasurementError):
                self._held.hold(node, cost.made)
        return cost.making, cost.reading

    def whole_speed(
        self, before: ir.Node, after: ir.Node, consumer_seconds: float = FASTEST_CONSUMER
    ) -> tuple[float, float, float]:
        """Time two pipelines from their sources to their ends, as a consumer sees them from the second epoch on."""
        with self._time.all_of_it(), _failures_are_unmeasurable(), undisturbed_generators(_functions(before, after)):
            self._refuse_to_run(before)
            sides = [in_later_epochs(side, self._sample_source) for side in (before, after)]
            if sides[0] == sides[1]:
                return 1.0, 1.0, 1.0
            for side in sides:
                refuse_if_nothing_passes(side)
            old, new = map(taking_turns, ending_in_time(sides, _MOST_SECONDS))
            seconds, epoch = min(_SPEED_SECONDS, self._time.seconds), most_known(before) or math.inf
            return compare_speeds(old, new, seconds, consumer_seconds, both_ways=True, epoch=epoch)

    def epoch_outlasts(self, pipeline: ir.Node, seconds: float) -> bool:
        """Return whether an epoch, from the second on, takes longer than this if nothing else takes time."""
        self._refuse_to_run(pipeline)
        with _failures_are_unmeasurable(), undisturbed_generators(_functions(pipeline)):
            return longer_than(
                taking_turns(self._passing_in_later_epochs(pipeline)), seconds / max(most_elements(pipeline), 1)
            )

    def fails(self, pipeline: ir.Node) -> bool:
        """Return whether the first element of a pipeline raises, in epochs after the first, even if no time is left."""
        with self._time.all_of_it(), suppress(MeasurementError), undisturbed_generators(_functions(pipeline)):
            if who_would_see(pipeline, draws_count=False):
                return False
            try:
                next(iter(build(self._passing_in_later_epochs(pipeline))), None)
            except tf.errors.OpError:
                return True
        return False

    def _refuse_to_run(self, pipeline: ir.Node) -> None:
        if self.exhausted:
            raise MeasurementError(self.exhausted)
        witness = who_would_see(pipeline, draws_count=False)
        if witness:
            raise MeasurementError(f"a run could be noticed, since {witness}")

    def _passing_in_later_epochs(self, pipeline: ir.Node) -> ir.Node:
        endless = in_later_epochs(pipeline, self._sample_source)
        refuse_if_nothing_passes(endless)
        (ending,) = ending_in_time([endless], _MOST_SECONDS)
        return ending

    def _compare(self, before: ir.Node, after: ir.Node, over: ir.Node | None) -> tuple[float, float, float]:
        sides = [before, after]
        if over is not None:
            source = without_end(self._sample_source(over))
            sides = [trees.substitute(side, over, source) for side in sides]
        refuse_if_nothing_passes(_repeatable(sides[0]))
        sides = ending_in_time(sides, _MOST_SECONDS)
        each, epoch = elements_in_one_turn(sides[0]), most_known(before) or math.inf
        old, new = (taking_turns(side, each) for side in sides)
        return compare_speeds(old, new, min(_SPEED_SECONDS, self._time.seconds), epoch=epoch / each)

    def _sample_source(self, node: ir.Node) -> ir.Node:
        return self._held.source(node, self._sample)

    def _sample(self, node: ir.Node, count: int) -> list[Any]:
        if self.exhausted:
            raise MeasurementError(self.exhausted)
        with undisturbed_generators(_functions(node)):
            return take_sample(node, count)


def _functions(*sides: ir.Node) -> Iterator[Function]:
    return chain.from_iterable(map(trees.functions, sides))


@contextmanager
def _failures_are_unmeasurable() -> Iterator[None]:
    """Turn an error of the user's function on one element, or a lack of elements, into a reason not to measure."""
    try:
        yield
    except StopIteration as ended:
        raise MeasurementError("the pipeline has no elements, or stops giving any") from ended
    except tf.errors.OpError as error:
        raise MeasurementError(f"an element of the sample raised: {one_sentence(error)}") from error


def _run(pipeline: ir.Node, over: ir.Node, source: ir.Node) -> Iterator[Any]:
    return iter(build(_repeatable(trees.substitute(pipeline, over, source))))


def _repeatable(pipeline: ir.Node) -> ir.Node:
    """Return a pipeline, unless running it once more may change something."""
    witness = who_has_side_effects(pipeline)
    if witness:
        raise MeasurementError(f"a run could be noticed, since {witness}")
    return pipeline
