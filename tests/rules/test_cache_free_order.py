import time

import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.build import build
from autopipe.pipeline.text import one_line
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules import Keeps
from autopipe.runtime.caches.filling import while_filling
from autopipe.verify import compare
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "cache_free_order"
Dataset = tf.data.Dataset
FILES, ROWS = 5, 12


def read(file):
    return Dataset.range(file * ROWS, (file + 1) * ROWS)


def work(x):
    return tf.cast(x, tf.int32) + 0 * tf.reduce_sum(tf.strings.length(tf.strings.as_string(tf.range(x + 500))))


def rows(files=None, **order):
    """Return the rows of files, whose order differs in each epoch."""
    files = Dataset.range(FILES).shuffle(FILES) if files is None else files
    return files.interleave(read, cycle_length=3, num_parallel_calls=2, **(order or {"deterministic": False}))


def noisy(x):
    return x, tf.random.uniform(())


READ = "range(0, 5) | shuffle(5) | interleave(read, cycle=3, calls=2, deterministic=False)"


def test_work_on_rows_of_shuffled_files_is_kept_and_shuffled_anew():
    done = assert_rewrites(
        RULE,
        rows().prefetch(2).shuffle(20).map(work).filter(lambda x: x > 3),
        f"{READ} | map(work) | cache() | prefetch(2) | shuffle(all) | filter(<lambda>)",
    )
    assert done.steps[0].keeps is Keeps.ELEMENTS


def test_the_shuffle_may_come_after_the_work():
    assert_rewrites(
        RULE,
        rows().map(work).prefetch(2).shuffle(20).batch(60).unbatch(),
        f"{READ} | map(work) | cache() | prefetch(2) | shuffle(all) | batch(60) | unbatch()",
    )
    assert_refuses(RULE, rows().map(work).shuffle(20).batch(4).take(3), "take(3)")


def test_what_comes_before_the_first_draw_is_kept():
    def drawing(x):
        return work(x), tf.random.uniform(())

    done = apply(RULE, rows().shuffle(20).map(drawing))
    expected = f"{READ} | map(fixed part of drawing) | cache() | shuffle(all) | map(rest of drawing)"
    assert one_line(done.after) == expected


def test_an_order_that_only_what_is_ready_first_decides_is_mixed_as_much_as_it_was():
    """Who reads files one by one may want them roughly in that order."""
    files = Dataset.range(FILES)
    assert_rewrites(
        RULE,
        rows(files).map(work).shuffle(20),
        "range(0, 5) | interleave(read, cycle=3, calls=2, deterministic=False) | map(work) | cache() | shuffle(20)",
    )


def test_an_option_may_free_the_order_too():
    options = tf.data.Options()
    options.deterministic = False
    assert_rewrites(
        RULE,
        Dataset.range(60).map(work, num_parallel_calls=2).shuffle(9).map(work).with_options(options),
        "range(0, 60) | map(work, calls=2) | map(work) | cache() | shuffle(9) | options",
    )


def test_refuses_elements_that_an_order_which_an_option_frees_decides():
    options = tf.data.Options()
    options.deterministic = False
    for first in (Dataset.range(60).map(tf.abs), tf.data.TextLineDataset(["a", "b"], num_parallel_reads=2)):
        dataset = first.take(5).map(tf.strings.as_string if first.element_spec.dtype == tf.int64 else tf.strings.upper)
        assert_refuses(RULE, dataset.shuffle(9).with_options(options), "take(5) depends on the order")


def test_refuses_elements_that_a_free_order_inside_a_function_decides():
    def some(file):
        return read(file).map(tf.abs, num_parallel_calls=2, deterministic=False).take(5)

    dataset = Dataset.range(FILES).interleave(some).map(work).shuffle(9)
    assert_refuses(RULE, dataset, "some depends on the order")
    assert_refuses("cache_fixed_work", dataset, "some frees the order of each repetition")


def test_a_map_whose_own_order_is_free_is_kept():
    dataset = Dataset.range(60).shuffle(9).map(work, num_parallel_calls=2, deterministic=False)
    expected = "range(0, 60) | map(work, calls=2, deterministic=False) | cache() | shuffle(9)"
    assert_rewrites(RULE, dataset, expected)


def windows(file):
    """Return windows of a file's rows, which no rule can take out of the function that reads them."""
    return read(file).map(work).window(5, shift=2).flat_map(lambda window: window.batch(5)).take(4)


def test_what_the_function_that_reads_the_files_does_is_kept_where_no_map_comes_after():
    dataset = Dataset.range(FILES).shuffle(FILES).interleave(windows, cycle_length=3, num_parallel_calls=2)
    reading = "range(0, 5) | shuffle(5) | interleave(windows, cycle=3, calls=2)"
    expected = f"{reading} | cache() | prefetch(2) | shuffle(all) | batch(4)"
    assert_rewrites(RULE, dataset.prefetch(2).shuffle(9).batch(4), expected)
    heavy = rows().filter(lambda x: work(x) > 3).shuffle(9)
    assert_rewrites(RULE, heavy, f"{READ} | filter(<lambda>) | cache() | shuffle(all)")


def test_refuses_work_on_an_order_that_differs():
    summed = rows().scan(tf.constant(0), lambda total, x: (total + work(x), total)).shuffle(9)
    assert_refuses(RULE, summed, "scan(<lambda>) depends on the order")


@pytest.fixture
def csv_files(tmp_path):
    for file in range(FILES):
        numbers = (f"{file * ROWS + row},row {row}\n" for row in range(ROWS))
        (tmp_path / f"{file}.csv").write_text("number,name\n" + "".join(numbers))
    return str(tmp_path / "*.csv")


@pytest.mark.parametrize("sloppy", [False, True])
def test_rows_of_shuffled_csv_files_are_parsed_once(csv_files, sloppy):
    dataset = tf.data.experimental.make_csv_dataset(csv_files, 4, num_epochs=1, num_parallel_reads=2, sloppy=sloppy)
    done = apply(RULE, dataset)
    assert "cache() | shuffle(all)" in one_line(done.after)
    assert compare(dataset, build(done.after), Keeps.ELEMENTS, epochs=3) is None


@pytest.mark.parametrize(
    ("dataset", "because"),
    [
        (rows().batch(2).unbatch().shuffle(20).map(work), "batch(2) depends on the order"),
        (rows().take(20).shuffle(20).map(work), "take(20) depends on the order"),
        (rows().enumerate().map(lambda i, x: x + i).shuffle(9).map(work), "enumerate() depends on the order"),
        (rows(Dataset.range(FILES).shuffle(FILES, seed=1)).shuffle(20).map(work), "an order that its author chose"),
        (rows(Dataset.range(FILES).repeat().shuffle(FILES)).shuffle(20).map(work), "never ends"),
        (rows().map(noisy).map(lambda x, _: x).shuffle(20).map(work), "draws random numbers"),
        (rows().shuffle(20).map(work).batch(4).repeat(), "repeat() goes on in the iterator that fills the cache"),
        (rows().shuffle(20).repeat(2).map(work), "repeat(2) goes on in the iterator that fills the cache"),
        (rows().shuffle(20).map(work).take(5), "take(5)"),
        (rows().shuffle(20).map(work).ignore_errors(), "ignore_errors()"),
    ],
)
def test_refuses(dataset, because):
    assert_refuses(RULE, dataset, because)


@pytest.mark.parametrize(
    "dataset",
    [
        rows().map(work),
        rows().shuffle(20, seed=1).map(work),
        rows().shuffle(20, reshuffle_each_iteration=False).map(work),
        rows().shuffle(1).map(work),
        rows().shuffle(20).map(noisy),
    ],
    ids=["not shuffled", "seed", "one order", "not mixed", "draws"],
)
def test_leaves_alone(dataset):
    assert_no_match(RULE, dataset)


def test_says_nothing_where_the_order_is_the_same_in_every_epoch():
    done = apply(RULE, rows(Dataset.range(FILES), deterministic=True).shuffle(20).map(work))
    assert not done.steps
    assert not done.refusals


@pytest.mark.parametrize(("reading", "refused"), [(0.9e-4, False), (1.1e-4, True)])
def test_an_epoch_begins_hardly_later(reading, refused):
    done = apply(RULE, rows().shuffle(20).map(work), answers=Answers(caching=(1e-3, reading)))
    assert [refusal.rule for refusal in done.refusals] == [RULE] * refused
    assert len(done.steps) == (not refused)


def interleaved():
    """Return rows whose order differs in each epoch, read one after the other."""
    return Dataset.range(FILES).shuffle(FILES).interleave(read, cycle_length=3)


@pytest.mark.parametrize(
    ("dataset", "most_elements", "reading", "soon"),
    [
        (interleaved().map(work).shuffle(20), 60, 0.33e-3, True),
        (interleaved().map(work).shuffle(20), 60, 0.34e-3, False),
        (interleaved().map(work).shuffle(70), 60, 0.49e-3, True),
        (interleaved().map(work).shuffle(20), None, 0.33e-3, False),
        (interleaved().map(work).prefetch(2).map(work).shuffle(20), 60, 0.16e-3, True),
        (interleaved().map(work).prefetch(2).map(work).shuffle(20), 60, 0.17e-3, False),
        (interleaved().map(work, num_parallel_calls=4).shuffle(20), 60, 0.17e-3, False),
        (rows().map(work).shuffle(20), 60, 0.17e-3, False),
        (interleaved().shuffle(20).map(work), 60, 0.11e-3, False),
        (interleaved().cache().map(work).shuffle(20), 60, 0.11e-3, False),
    ],
    ids=[
        "a third",
        "more than a third",
        "all",
        "of who knows how many",
        "two halves at once",
        "two halves at once, longer",
        "parallel calls",
        "parallel reads",
        "made after it",
        "made of what is cached",
    ],
)
def test_an_epoch_begins_no_later_than_the_shuffle_that_was_written_lets_it(dataset, most_elements, reading, soon):
    """Making an element takes 1 ms."""
    done = apply(RULE, dataset, answers=Answers(caching=(1e-3, reading), most_elements=most_elements))
    assert len(done.steps) == soon
    assert soon or "before an epoch, all are read" in done.refusals[0].reason


def optimized(dataset, monkeypatch):
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
    made = autopipe.optimize(dataset, rules=[RULE])
    assert made.plan.rules == (RULE,)
    return made


def test_each_epoch_has_all_elements_in_an_order_of_its_own(monkeypatch):
    written = rows().shuffle(4).map(work)
    dataset = optimized(written, monkeypatch)
    epochs = [[int(x) for x in dataset] for _ in range(4)]
    assert all(sorted(epoch) == list(range(FILES * ROWS)) for epoch in epochs)
    assert len(set(map(tuple, epochs))) == 4
    assert dataset.caches_are_full
    assert compare(written, dataset, Keeps.ELEMENTS, epochs=3) is None


def test_a_shuffle_before_the_work_stands_there_while_the_cache_fills():
    """The first element waits for the work on itself, not for that on all that the shuffle holds."""
    slow = Answers(caching=(1.0, 1e-5))
    done = apply(RULE, rows().shuffle(20).map(work).batch(4), answers=slow)
    assert one_line(done.after) == f"{READ} | map(work) | cache() | shuffle(all) | batch(4)"
    assert one_line(while_filling(done.after)) == f"{READ} | shuffle(20) | map(work) | cache() | batch(4)"


def test_refuses_where_the_first_element_would_wait_long_for_the_work_on_others():
    slow = Answers(caching=(1.0, 1e-5), most_elements=FILES * ROWS)
    waits = "waits at least 10 s for the work on the 20 elements that shuffle("
    for dataset in (
        rows().map(tf.abs).shuffle(20).map(work),
        rows(Dataset.range(FILES)).shuffle(20).map(work),
        rows(Dataset.range(FILES)).shuffle(20).map(work).shuffle(2),
    ):
        refusals = apply(RULE, dataset, answers=slow).refusals
        assert any(waits in each.reason for each in refusals)


def test_what_an_author_asserts_about_the_number_counts_where_elements_pass_through_a_zip():
    counted = tf.data.experimental.assert_cardinality(FILES * ROWS)
    data = rows().filter(lambda x: x >= 0).map(lambda x: x + 1).shuffle(20).apply(counted).map(work)
    done = apply(RULE, Dataset.zip((data, Dataset.range(FILES * ROWS))))
    assert "map(work) | cache()" in one_line(done.after)


def test_the_first_epoch_does_not_wait_for_the_last_element_and_later_ones_mix_all(monkeypatch):
    made = []

    @autopipe.stateless
    def noted(x):
        made.append(int(x))
        time.sleep(0.001)
        return x

    def slow(x):
        return tf.ensure_shape(tf.numpy_function(noted, [x], tf.int64), ())

    written = Dataset.range(400).shuffle(2).interleave(Dataset.from_tensors).shuffle(3)
    dataset = optimized(written.map(slow), monkeypatch)
    made.clear()
    iterator = iter(dataset)
    next(iterator)
    assert len(made) < 100
    first = [int(x) for x in iterator]
    assert len(first) == 399
    moved = [abs(place - int(x)) for place, x in enumerate(dataset)]
    assert max(moved) > 100
    assert len(made) == 400
