"""What TensorFlow counts in its own tree is told in the stages that the user wrote."""

import atexit
import shutil
import tempfile

import pytest
import tensorflow as tf
from hypothesis import assume, given
from pipelines import FILES, recipes

from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import stage
from autopipe.planning.costs.stages import counters_in, model_of
from autopipe.runtime.end_of_data import telling_its_end
from autopipe.runtime.requests import Requests
from autopipe.telemetry.stall import StallCounter, metered

Dataset = tf.data.Dataset
parallel_interleave = tf.data.experimental.parallel_interleave
NUMBERS = Dataset.range(1000)


def saved():
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    NUMBERS.save(folder)
    return Dataset.load(folder)


SAVED = saved()


def plus_one(x):
    return x + 1


def memoized(calls=None):
    mapped, numbered = extract(NUMBERS.map(plus_one)), extract(NUMBERS.enumerate())
    return ir.MemoizedMap(input=numbered, fn=mapped.fn, source=mapped.input, num_parallel_calls=calls)


def same(x):
    return x


def autotuned(dataset):
    options = tf.data.Options()
    options.autotune.enabled = True
    return dataset.with_options(options)


def count_stages(iterator, tree, **how):
    return counters_in(model_of(iterator), tree, **how)


def counted(dataset, elements=20):
    """Return the tree of a dataset, and its counters after some elements."""
    tree = dataset if isinstance(dataset, ir.Node) else extract(dataset)
    iterator = iter(autotuned(build(tree)))
    for _ in range(elements):
        next(iterator)
    return tree, count_stages(iterator, tree)


def needed(dataset, elements=20):
    return {stage(node): each.needed for node, each in counted(dataset, elements)[1].items()}


def kinds(dataset, elements=1):
    """Return the kinds of stages that were counted, those that TensorFlow made one with another too."""
    found = counted(dataset, elements)[1]
    fused = [each.fused_with for each in found.values() if each.fused_with is not None]
    return {type(node) for node in (*found, *fused)}


# One pipeline for every transformation of the tree; the source has elements left when it is looked at.
TRANSFORMATIONS = {
    ir.AssertCardinality: NUMBERS.apply(tf.data.experimental.assert_cardinality(1000)),
    ir.Batch: NUMBERS.batch(2),
    ir.Cache: NUMBERS.cache(),
    ir.ChooseFrom: Dataset.sample_from_datasets([NUMBERS, NUMBERS]),
    ir.Concatenate: NUMBERS.concatenate(NUMBERS),
    ir.Enumerate: NUMBERS.enumerate(),
    ir.FilesReader: tf.data.TextLineDataset(FILES),
    ir.Filter: NUMBERS.filter(lambda x: x > 3),
    ir.FlatMap: NUMBERS.flat_map(lambda x: Dataset.range(x)),
    ir.Generator: Dataset.from_generator(lambda: iter(range(9)), output_signature=tf.TensorSpec((), tf.int64)),
    ir.GroupByWindow: NUMBERS.group_by_window(lambda x: x % 2, lambda key, window: window.batch(3), 4),
    ir.IgnoreErrors: NUMBERS.ignore_errors(),
    ir.Interleave: NUMBERS.interleave(lambda x: Dataset.range(x)),
    ir.LegacyInterleave: NUMBERS.apply(parallel_interleave(lambda x: Dataset.range(x), cycle_length=2)),
    ir.Map: NUMBERS.map(plus_one),
    ir.MemoizedMap: memoized(),
    ir.Opaque: NUMBERS.unique(),
    ir.PaddedBatch: NUMBERS.padded_batch(2),
    ir.Prefetch: NUMBERS.prefetch(2),
    ir.RandomNumbers: Dataset.random(),
    ir.Range: NUMBERS,
    ir.Rebatch: NUMBERS.batch(3).rebatch(2),
    ir.Repeat: NUMBERS.repeat(2),
    ir.Saved: SAVED,
    ir.Scan: NUMBERS.scan(0, lambda state, x: (state + 1, x)),
    ir.Shard: NUMBERS.shard(3, 1),
    ir.Shuffle: NUMBERS.shuffle(3),
    ir.Skip: NUMBERS.skip(3),
    ir.Take: NUMBERS.take(30),
    ir.TakeWhile: NUMBERS.take_while(lambda x: x < 900),
    ir.TensorSlices: Dataset.from_tensor_slices(list(range(9))),
    ir.Tensors: Dataset.from_tensors(1),
    ir.Unbatch: NUMBERS.batch(3).unbatch(),
    ir.Window: NUMBERS.window(3).flat_map(lambda window: window.batch(3)),
    ir.Zip: Dataset.zip((NUMBERS, NUMBERS)),
}
NOT_COUNTED = {ir.End, ir.Node, ir.Options, ir.SharedCache, ir.Source, ir.ThreadPool, ir.Unary}


def test_every_kind_of_stage_has_a_pipeline_here():
    every = {kind for name in ir.__all__ if isinstance(kind := getattr(ir, name), type) and issubclass(kind, ir.Node)}
    assert set(TRANSFORMATIONS) == every - NOT_COUNTED


@pytest.mark.parametrize("kind", TRANSFORMATIONS, ids=lambda kind: kind.__name__)
def test_every_kind_of_stage_is_counted(kind):
    assert kind in kinds(TRANSFORMATIONS[kind])


@pytest.mark.parametrize(
    ("dataset", "kind"),
    [
        (NUMBERS.map(plus_one, num_parallel_calls=2), ir.Map),
        (NUMBERS.map(plus_one, synchronous=True), ir.Map),
        (memoized(calls=2), ir.MemoizedMap),
        (ir.Batch(input=memoized(calls=2), batch_size=4), ir.MemoizedMap),
        (NUMBERS.batch(2, num_parallel_calls=2), ir.Batch),
        (NUMBERS.interleave(lambda x: Dataset.range(x), cycle_length=2, num_parallel_calls=2), ir.Interleave),
        (tf.data.TextLineDataset(FILES, num_parallel_reads=2), ir.FilesReader),
        (tf.data.TextLineDataset(FILES, num_parallel_reads=tf.data.AUTOTUNE), ir.FilesReader),
        (tf.data.experimental.CsvDataset(FILES, [tf.string]), ir.FilesReader),
        (NUMBERS.repeat(), ir.Repeat),
        (NUMBERS.map(plus_one).batch(4), ir.Batch),
        (NUMBERS.shuffle(8).repeat(), ir.Repeat),
        (NUMBERS.map(lambda x: tf.fill([x % 3], x)).ragged_batch(2), ir.Batch),
    ],
)
def test_other_forms_of_a_stage_are_counted_too(dataset, kind):
    assert kind in kinds(dataset)


def test_a_cache_in_a_file_is_counted(tmp_path):
    assert kinds(NUMBERS.cache(str(tmp_path / "cache"))) == {ir.Cache, ir.Range}


@pytest.mark.parametrize(
    "dataset",
    [NUMBERS.take(-1), NUMBERS.skip(0), NUMBERS.shard(1, 0), NUMBERS.repeat(1), autotuned(NUMBERS)],
    ids=["take all", "skip none", "one shard", "repeat once", "options"],
)
def test_what_tensorflow_drops_is_left_out(dataset):
    assert kinds(dataset) == {ir.Range}


@pytest.mark.parametrize("between", [NUMBERS.shuffle(3).shard(1, 0), NUMBERS.shuffle(3).take(-1).skip(0)])
def test_what_tensorflow_makes_one_across_a_stage_that_it_drops_is_told(between):
    assert kinds(between.repeat(2)) == {ir.Range, ir.Shuffle, ir.Repeat}


@given(recipe=recipes())
def test_the_counters_of_any_pipeline_are_of_its_stages_and_reach_its_end(recipe):
    try:
        dataset = recipe()
    except (ValueError, TypeError):
        assume(False)
    tree = extract(dataset)
    nodes = list(trees.walk(tree))
    iterator = iter(autotuned(build(tree)))
    read = 0
    for _ in range(5):
        try:
            next(iterator)
        except StopIteration:
            break
        except tf.errors.OpError:
            continue
        read += 1
        found = count_stages(iterator, tree)
        assert set(found) <= set(nodes)
        last = next(found[node] for node in nodes if node in found)
        assert last.elements >= read
        assert all(each.elements >= 0 and each.needed >= 0 and each.seconds >= 0 for each in found.values())


class TestNeeded:
    """How many elements of a stage make one of the pipeline."""

    def test_a_batch_needs_its_size_fused_or_not(self):
        assert needed(NUMBERS.batch(8)) == {"batch(8)": 1, "range(0, 1000)": 8}
        assert needed(NUMBERS.map(plus_one).batch(8)) == {"map(plus_one)": 1, "range(0, 1000)": 8}
        assert needed(NUMBERS.map(plus_one).batch(8, num_parallel_calls=2).prefetch(1)) == {
            "prefetch(1)": 1,
            "batch(8, calls=2)": 1,
            "map(plus_one)": 8,
            "range(0, 1000)": 8,
        }
        assert needed(NUMBERS.batch(4).padded_batch(2))["range(0, 1000)"] == 8

    def test_a_filter_needs_what_it_drops_too(self):
        found = needed(NUMBERS.filter(lambda x: x % 5 == 0).batch(2), 60)
        assert found["filter(<lambda>)"] == 2
        assert found["range(0, 1000)"] == pytest.approx(10, rel=0.1)

    def test_a_shard_needs_what_the_others_take(self):
        assert needed(NUMBERS.shard(4, 1).batch(2))["range(0, 1000)"] == pytest.approx(8, rel=0.1)

    def test_errors_that_are_ignored_are_needed(self):
        dataset = NUMBERS.map(lambda x: tf.debugging.check_numerics(1 / tf.cast(x % 5, tf.float32), "inf"))
        found = needed(dataset.ignore_errors().batch(2), 90)
        assert found["ignore_errors()"] == 2

    def test_a_repeat_needs_one(self):
        assert needed(NUMBERS.take(3).repeat().batch(2)) == {
            "batch(2)": 1,
            "repeat()": 2,
            "take(3)": 2,
            "range(0, 1000)": 2,
        }

    def test_an_unbatch_needs_a_part_of_a_batch(self):
        found = needed(NUMBERS.batch(10).unbatch(), 95)
        assert found["batch(10)"] == pytest.approx(0.1, rel=0.1)
        assert found["range(0, 1000)"] == pytest.approx(1, rel=0.1)

    def test_a_rebatch_needs_parts_of_batches(self):
        found = needed(NUMBERS.batch(10).rebatch(20), 40)
        assert found["batch(10)"] == pytest.approx(2, rel=0.1)

    def test_a_shuffle_needs_one_while_its_buffer_fills(self):
        assert needed(NUMBERS.shuffle(900).batch(4), 3)["range(0, 1000)"] == 4
        assert needed(NUMBERS.shuffle(900).repeat().batch(4), 3)["range(0, 1000)"] == 4

    def test_an_interleave_needs_a_part_of_a_name(self):
        found = needed(NUMBERS.interleave(lambda x: Dataset.range(10), cycle_length=2).batch(2), 100)
        assert found["range(0, 1000)"] == pytest.approx(0.2, rel=0.2)

    def test_each_side_of_a_concatenation_counts_as_far_as_it_was_read(self):
        found = needed(NUMBERS.take(150).concatenate(Dataset.range(5, 900)), 300)
        # Elements are made ahead while the counters are looked at.
        assert found["take(150)"] == pytest.approx(0.5, rel=0.3)
        assert found["range(5, 900)"] == pytest.approx(0.5, rel=0.3)

    def test_a_pipeline_that_is_used_twice_is_counted_twice(self):
        halves = NUMBERS.map(plus_one)
        _, found = counted(Dataset.zip((halves, halves)))
        assert found[extract(halves)].needed == 2
        assert found[extract(halves)].elements >= 40


class TestCounters:
    def test_names_that_came_to_their_end_are_not_mistaken_for_what_they_name(self):
        tree = extract(tf.data.TextLineDataset(FILES, num_parallel_reads=2))
        iterator = iter(autotuned(build(tree)))
        for read, _ in enumerate(iterator, 1):
            found = count_stages(iterator, tree)
            assert found[tree].elements >= read
            assert tree.input not in found or found[tree.input].elements <= len(FILES)

    def test_the_work_of_what_is_interleaved_is_the_interleaves(self):
        def spin(x):
            square = tf.fill((200, 200), tf.cast(x, tf.float32))
            return tf.cast(tf.reduce_sum(square @ square), x.dtype)

        dataset = NUMBERS.interleave(lambda x: Dataset.range(10).map(spin), cycle_length=2).map(plus_one)
        tree, found = counted(dataset, 60)
        assert found[tree.input].seconds > 3 * found[tree.input.input].seconds

    def test_a_cache_tells_what_it_holds(self):
        tree, found = counted(NUMBERS.map(lambda x: tf.zeros(100)).cache(), 50)
        assert found[tree].buffered_bytes >= 50 * 400

    def test_a_shuffle_tells_what_it_holds(self):
        tree, found = counted(NUMBERS.shuffle(500), 1)
        assert found[tree].buffered_bytes == pytest.approx(500 * 8, rel=0.05)

    def test_parallel_stages_work_ahead(self):
        reader = tf.data.TextLineDataset(FILES, num_parallel_reads=2)
        for dataset, calls in (
            (NUMBERS.map(plus_one, num_parallel_calls=3), 3),
            (NUMBERS.map(plus_one, num_parallel_calls=3).batch(2), 3),
            (NUMBERS.interleave(lambda x: Dataset.range(9), cycle_length=4, num_parallel_calls=2), 2),
            (reader, 2),
        ):
            _, found = counted(dataset, 4)
            (ahead,) = (each for each in found.values() if each.ahead)
            assert ahead.parallelism == calls

    def test_a_prefetch_works_ahead_unless_it_holds_nothing(self):
        tree, found = counted(NUMBERS.prefetch(2))
        assert found[tree].ahead
        assert found[tree].parallelism is None
        tree, found = counted(NUMBERS.filter(lambda x: x >= 0).prefetch(0))
        assert not any(each.ahead for each in found.values())

    def test_a_metered_pipeline_is_told_as_it_was_written(self):
        dataset = NUMBERS.map(plus_one).batch(4)
        tree = extract(dataset)
        iterator = iter(autotuned(metered(build(tree), StallCounter(), inner_prefetch=True)))
        for _ in range(5):
            next(iterator)
        found = count_stages(iterator, tree, metered=True)
        assert {stage(node): each.needed for node, each in found.items()} == {"map(plus_one)": 1, "range(0, 1000)": 4}

    @pytest.mark.parametrize("last", [lambda made: made, lambda made: made.filter(lambda x: True)])
    def test_so_is_one_that_takes_note_of_its_end_as_where_caches_fill(self, last):
        tree = extract(last(NUMBERS.map(plus_one).batch(4)))
        timed = metered(build(tree), StallCounter(), inner_prefetch=True)
        iterator = iter(autotuned(telling_its_end(timed, lambda: None, Requests(), number=-1, inner_prefetch=False)))
        for _ in range(5):
            next(iterator)
        found = count_stages(iterator, tree, metered=True)
        assert {"map(plus_one)", "range(0, 1000)"} <= {stage(node) for node in found}

    def test_before_the_first_element_nothing_was_done(self):
        _, found = counted(NUMBERS.batch(2), 0)
        assert {each.elements for each in found.values()} <= {0}

    def test_without_autotuning_nothing_is_counted(self):
        options = tf.data.Options()
        options.autotune.enabled = False
        iterator = iter(NUMBERS.with_options(options))
        next(iterator)
        with pytest.raises(tf.errors.NotFoundError):
            count_stages(iterator, extract(NUMBERS))
