"""The iterators over an optimized dataset: how each starts, and how it continues with other knobs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.effects import effects
from autopipe.pipeline import ir, trees
from autopipe.pipeline.knobs import knob_values, read_knobs, with_knobs
from autopipe.pipeline.seeds import draws_with_its_first_element, is_reseeded, repeats_a_seeded_shuffle
from autopipe.pipeline.whole_caches import all_come_through
from autopipe.runtime.caches.filling import may_run_as_written, passing, while_filling
from autopipe.runtime.caches.full_pass import may_give_nothing_for_ever
from autopipe.runtime.caches.left_midway import Departures, answer, read_to_end
from autopipe.runtime.caches.memories import Memories
from autopipe.runtime.caches.stores import Stores
from autopipe.runtime.checkpoints import Progress, make_savable
from autopipe.runtime.departed import ask_once_more, note_taken
from autopipe.runtime.derived import built_after
from autopipe.runtime.disposal import call_aside, dispose_aside, number_given, resource_of
from autopipe.runtime.end_of_data import telling_its_end
from autopipe.runtime.one_more import ask_for_one_more
from autopipe.runtime.readings import Form, Reading, Stages, observers, tree_after
from autopipe.runtime.ready_pipelines import ReadyPipeline, ReadyPipelines, filling_at_once
from autopipe.runtime.repoint import (
    MOST_HELD,
    has_large_buffer,
    repoint,
    restore,
    restore_in_place,
    state_of,
    waits_for_next_epoch,
    was_never_read,
    with_new_seed_generator,
)
from autopipe.runtime.requests import Requests
from autopipe.runtime.unobserved import derived_from, may_end_aside
from autopipe.telemetry.stall import StallCounter, metered

__all__ = ["Iterators"]


class Iterators:
    """The iterators over one optimized dataset.

    Each iterator holds its reading, a reading holds the dataset, and the dataset holds this object: all of it, memories
    included, is freed with the last iterator.

    Args:
        stores: where the caches keep their elements.

    Attributes:
        ready: the pipelines that earlier iterators ran.
    """

    def __init__(self, stores: Stores) -> None:
        self.ready = ReadyPipelines()
        self._stores = stores
        self._departures = Departures()
        self._holds_much = False
        self._readings: list[Callable[[], Reading | None]] = []

    def live(self) -> list[Reading]:
        """Return the readings of the iterators that are still referenced."""
        known = (each() for each in self._readings)
        return [reading for reading in known if reading is not None and reading.iterator() is not None]

    def memories_in_use(self) -> list[Memories]:
        """Return where the memory caches of live iterators keep their elements."""
        return [reading.memories for reading in self.live() if not reading.passes]

    def start(self, dataset: Any, tree: ir.Node, built: Any, after: Stages, *, early: bool) -> tuple[Any, Reading]:
        """Start an iterator.

        Args:
            dataset: the optimized dataset.
            tree: its pipeline, perhaps with other knobs.
            built: the dataset that others are derived from; without caches it is the same pipeline.
            after: the stages that were put after it.
            early: whether its buffers are to fill before the first element is asked for.
        """
        reading, watched = self._new_reading(dataset, tree, after)
        tree = reading.run(tree)
        ready = None
        if not reading.writes:
            in_use = (tree, dataset.tree)
            ready = self.ready.one_for(reading, tree, in_use, early=early, metered=bool(observers()))
        if ready is None:
            ready = self._make(tree, built, reading, early=early)
        iterator = iter(ready.pipeline)
        ready.iterator = reading.iterator = weakref.ref(iterator)
        reading.stall, reading.requests = ready.stall, ready.requests
        ended: Future[bool] | None = Future() if reading.passes and _ends_aside(reading) else None
        self._see_off(iterator, reading, ready.pipeline, ended)
        if ended is not None:
            self._departures.watch(iterator, partial(answer, ended), asked=ended)
        elif reading.passes and reading.requests is not None:
            number = int(ready.pipeline.cardinality())
            self._departures.watch(iterator, partial(read_to_end, reading.requests, number))
        elif watched:
            self._departures.watch(iterator)
        make_savable(iterator, reading, partial(self._restore, reading))
        reading.taker.take_note(iterator)
        iterator._autopipe_reading = reading
        self._readings = [weakref.ref(each) for each in (*self.live(), reading)]
        return iterator, reading

    def change(self, reading: Reading, tree: ir.Node) -> ir.Node | None:
        """Make an iterator continue with a pipeline of the same stages with other knobs, if these are live.

        It stays unchanged while another thread may be taking an element from it.

        Returns:
            The pipeline whose seeds the next iterators must go on drawing from; ``None`` if they are not affected.
        """
        with reading.taker.kept_waiting() as is_here:
            return self._change(reading, tree) if is_here else None

    def _new_reading(self, dataset: Any, tree: ir.Node, after: Stages) -> tuple[Reading, bool]:
        """Return how an iterator is to read, and whether to watch that it is not abandoned before caches are full."""
        written_by_others = [file for each in self.live() for file in each.files]
        files = self._stores.next_files(written_by_others, self.memories_in_use())
        memories = self._stores.next_memories(self.memories_in_use())
        writes = not self._stores.are_whole(files)
        unfilled = not memories.full
        watched = unfilled and not files
        form = self._form_for(dataset, tree, after, memories, watched=watched) if unfilled else Form.PLAIN
        match form:
            case Form.AS_WRITTEN:
                memories = self._stores.memories_as_written(dataset.written)
            case Form.PASSING:
                memories = self._stores.no_memories
        reading = Reading(dataset, after, knob_values(tree), memories, None, files, writes, form=form)
        # Iterators with other stages or buffer sizes note their end as well, so that their state fits no other kind.
        notes = writes or form is Form.FILLING or (unfilled and memories.must_end)
        if _must_count(reading, notes=notes):
            reading.requests = Requests()
        return reading, watched

    def _form_for(self, dataset: Any, tree: ir.Node, after: Stages, memories: Memories, *, watched: bool) -> Form:
        if watched and self._departures.are_usual and not memories.some_are_filled:
            if self._stores.filled_in_vain and may_run_as_written(dataset.written, after):
                return Form.AS_WRITTEN
            if passing(tree, after) is not None:
                return Form.PASSING
        return Form.PLAIN if while_filling(tree, after) is tree else Form.FILLING

    def _make(self, tree: ir.Node, built: Any, reading: Reading, *, early: bool) -> ReadyPipeline:
        reading.stall = StallCounter() if observers() else None
        files, memories = reading.files, reading.memories
        plain = derived_from(tree) is reading.dataset.tree and not files and not memories.caches
        dataset = built if plain else self._stores.build(tree, memories, files)
        pipeline = self._pipeline(dataset, reading)
        pipeline = filling_at_once(pipeline) if early else pipeline
        ready = ReadyPipeline(tree, reading.after, files, memories, early, pipeline, reading.requests, reading.stall)
        if not reading.writes:
            self.ready.add(ready)
        return ready

    def _see_off(self, iterator: Any, reading: Reading, pipeline: Any, ended: Future[bool] | None) -> None:
        """Arrange what is to be done once an iterator is garbage-collected.

        Args:
            iterator: the iterator.
            reading: its reading.
            pipeline: what it runs.
            ended: is set to whether it was read to its end, if that is to be found out.
        """
        told = reading.notes and self._stores.need_be_told(reading.memories, reading.files)
        if not _ends_aside(reading):
            reading.memories.note_unseen_reader()
            if told or reading.passes:
                call_aside(iterator, partial(note_taken, self._stores, reading))
        elif ended is not None:
            # Holding the handle would keep what it leads to.
            handle = weakref.ref(resource_of(iterator))
            find_end = partial(self._find_end, reading, ended, pipeline, handle)
            reading.memories.note_reader(dispose_aside(iterator, find_end))
        elif told:
            asked: Future[None] = Future()
            gone = dispose_aside(iterator, partial(ask_once_more, self._stores, reading, asked, pipeline))
            reading.memories.note_reader(gone, asked)
        else:
            reading.memories.note_reader(dispose_aside(iterator))
        if reading.writes:
            # The latest finalizer is called first.
            weakref.finalize(iterator, self._stores.note_gone, reading.files).atexit = False

    def _find_end(
        self, reading: Reading, ended: Future[bool], like: Any, handle: Callable[[], Any], resource: Any
    ) -> None:
        """Find out whether a consumer that is gone had taken all elements."""
        found, number = False, int(like.cardinality())
        try:
            shown = None if reading.restored else handle()
            given = None if shown is None else number_given(shown)
            if given is not None and number >= 0:
                found = given >= number
            elif resource is not None and self._may_be_the_end(reading, given):
                found = isinstance(ask_for_one_more(resource, like, began=reading.began), tf.errors.OutOfRangeError)
                self._departures.note(given, found)
            note_taken(self._stores, reading)
        finally:
            ended.set_result(found)

    def _may_be_the_end(self, reading: Reading, given: int | None) -> bool:
        return self._departures.may_be_all(given) and not may_give_nothing_for_ever(reading.tree)

    def _change(self, reading: Reading, tree: ir.Node) -> ir.Node | None:
        iterator = reading.iterator()
        if iterator is None or reading.writes:
            return None
        if reading.form is Form.AS_WRITTEN:
            # The pipeline as written has none of these knobs.
            return None
        knobs = reading.knobs | {knob.name: knob.value for knob in read_knobs(tree) if knob.live}
        if knobs == reading.knobs or waits_for_next_epoch(tree_after(tree, reading.after)):
            return None
        if draws_with_its_first_element(tree) and was_never_read(iterator):
            # It would draw from seeds of its own, and the next epoch would draw the same again.
            return None
        if self._stores.is_unguarded(reading.memories) and not reading.memories.can_count:
            return None
        state = self._state_of(reading, iterator)
        if state is None:
            return None
        # Re-pointing draws from the generators of shuffle seeds; separate ones leave those of later epochs alone.
        own = trees.transform(with_knobs(tree, knobs), with_new_seed_generator)
        changed = replace(reading, knobs=knobs, memories=self._memories_for(reading))
        if not repoint(iterator, state, self._pipeline_of(changed, own), aside=_ends_aside(reading)):
            return None
        self._stores.succeed(reading.memories, changed.memories)
        _goes_on_as(reading, changed)
        return own if repeats_a_seeded_shuffle(tree_after(own, reading.after)) else None

    def _restore(self, reading: Reading, state: Any, saved: Progress) -> bool:
        """Make an iterator continue from where another one was, perhaps in another epoch; return whether it does.

        It continues with the knobs of the other one: some change the stages.

        An iterator that fills caches notes its end, and one that is observed is metered: which of these the saved one
        did is found by trying. The state has what caches hold, which must not be put into memories that others read.
        Later iterators read it too: a random order, or a choice of elements, stays the same.
        """
        iterator = reading.iterator()
        known = [knob for knob in read_knobs(reading.dataset.tree) if knob.name in saved.knobs]
        values = {knob.name: saved.knobs[knob.name] for knob in known if knob.accepts(saved.knobs[knob.name])}
        knobs = reading.knobs | values
        tree = with_knobs(reading.dataset.tree, knobs)
        keeps_nothing = not reading.memories.caches and not reading.notes and not reading.passes
        # An iterator that was read is then waited for, so it is made anew if that draws no order.
        in_place = was_never_read(iterator) or any(map(is_reseeded, trees.walk(reading.tree)))
        if keeps_nothing and in_place and knobs == reading.knobs and restore_in_place(iterator, state):
            return True
        for other in self._readings_like(reading, tree, knobs, saved):
            pipeline = self._pipeline_of(other, tree)
            if restore(iterator, state, pipeline, aside=_ends_aside(reading)):
                self._go_on_restored(reading, other, pipeline, saved)
                return True
        return False

    def _readings_like(
        self, reading: Reading, tree: ir.Node, knobs: dict[str, int], saved: Progress
    ) -> Iterator[Reading]:
        """Yield what the reading of the other iterator may have been: the right one is the one that its state fits."""
        noted, metered = reading.notes, reading.stall is not None
        forms = tuple(self._forms(reading, tree))
        for form, meters, notes in product(forms, (metered, not metered), (noted, not noted)):
            other = replace(
                reading,
                knobs=knobs,
                memories=self._memories_restored(form, reading),
                requests=None,
                stall=StallCounter() if meters else None,
                form=Form.PLAIN if form is Form.FILLING and not notes else form,
            )
            if _must_count(other, notes=notes):
                other.requests = Requests(saved.given, saved.in_vain)
            yield other

    def _forms(self, reading: Reading, tree: ir.Node) -> Iterator[Form]:
        yield Form.PLAIN if while_filling(tree, reading.after) is tree else Form.FILLING
        if passing(tree, reading.after) is not None:
            yield Form.PASSING
        if may_run_as_written(reading.dataset.written, reading.after):
            yield Form.AS_WRITTEN

    def _memories_restored(self, form: Form, reading: Reading) -> Memories:
        match form:
            case Form.AS_WRITTEN:
                return Memories(reading.dataset.written)
            case Form.PASSING:
                return self._stores.no_memories
        return self._stores.empty_memories()

    def _go_on_restored(self, reading: Reading, other: Reading, pipeline: Any, saved: Progress) -> None:
        """Take over how the other iterator read; its caches may be whole now."""
        iterator, number = reading.iterator(), int(pipeline.cardinality())
        if not (other.passes and reading.passes and other.requests is None):
            self._departures.forget(iterator)
        if other.passes:
            if other.requests is not None:
                self._departures.watch(iterator, partial(read_to_end, other.requests, number))
        else:
            other.memories.note_readers_of(reading.memories)
            # If the saved one had given its last element, no further element will show that it ended.
            has_ended = not saved.in_vain and saved.given == number
            if not other.notes or (has_ended and all_come_through(other.tree)):
                other.memories.note_whole()
            self._stores.adopt(reading.memories, other.memories)
        _goes_on_as(reading, other)

    def _state_of(self, reading: Reading, iterator: Any) -> Any:
        """Return the state of an iterator; ``None`` if TensorFlow cannot save it, or takes too long."""
        self._holds_much = (
            self._holds_much or has_large_buffer(reading.dataset.tree) or reading.memories.hold_more_than(MOST_HELD)
        )
        if self._holds_much:
            return None
        try:
            state = state_of(iterator)
        except tf.errors.UnimplementedError:
            return None
        self._holds_much = len(state) > MOST_HELD
        return None if self._holds_much else state

    def _memories_for(self, reading: Reading) -> Memories:
        """Return the memories of an iterator whose state is going to be restored.

        Restoring empties them for a moment. Nothing else may read them then: neither another iterator, nor the pipeline
        before, which may still be ending. If stages may read further ahead than before, they are guarded.
        """
        if self._stores.is_unguarded(reading.memories):
            return reading.memories.guarded_successor()
        shared = self.memories_in_use().count(reading.memories) > 1 or self._stores.is_derived(reading.memories)
        return reading.memories.successor() if shared or _ends_aside(reading) else reading.memories

    def _pipeline_of(self, reading: Reading, tree: ir.Node) -> Any:
        """Return the dataset that an iterator runs when it is made anew, with caches over its memories."""
        return self._pipeline(self._stores.build(reading.run(tree), reading.memories, reading.files), reading)

    def _pipeline(self, dataset: Any, reading: Reading) -> Any:
        """Return the dataset an iterator runs: with a meter and a note of its end if there are counters for them."""
        dataset = built_after(dataset, reading.after)
        synchronous = reading.ends_synchronously
        if reading.stall is not None:
            dataset = metered(dataset, reading.stall, inner_prefetch=synchronous)
        if reading.requests is not None:
            tell = partial(self._stores.note_end, reading.memories, reading.files)
            prefetched = synchronous and reading.stall is None
            stateless = all(effects(fn).steady for fn in trees.functions(reading.tree))
            chosen = any(isinstance(each, ir.ChooseFrom) for each in trees.walk_through(reading.tree))
            dataset = telling_its_end(
                dataset,
                tell,
                reading.requests,
                number=int(dataset.cardinality()) if all_come_through(reading.tree) else -1,
                inner_prefetch=prefetched,
                stateless=stateless,
                chosen=chosen,
            )
        tree = reading.dataset.tree
        if any(dataset is node.dataset for node in trees.walk(tree) if isinstance(node, ir.Source)):
            # Do not set an attribute on the author's own dataset.
            dataset = dataset.with_options(tf.data.Options())
        # The iterator holds its dataset; this makes it hold the functions and the memories of caches too, which
        # TensorFlow would free.
        dataset._autopipe_owner = (reading.dataset.original, tree, reading.memories)
        return dataset


def _goes_on_as(reading: Reading, other: Reading) -> None:
    reading.knobs, reading.memories, reading.form = other.knobs, other.memories, other.form
    reading.requests, reading.stall = other.requests, other.stall
    reading.restored = True


def _must_count(reading: Reading, *, notes: bool) -> bool:
    """Return whether the pipeline of an iterator has to count what it gives, which makes starting it slow.

    TensorFlow counts that too, and can be asked before the iterator is gone, if another thread destroys it.

    Args:
        reading: its reading.
        notes: whether its end must be noted for its caches or files.
    """
    return not _ends_aside(reading) if reading.passes else notes


def _ends_aside(reading: Reading) -> bool:
    return may_end_aside(reading.tree)
