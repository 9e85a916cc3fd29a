import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.optimizer import rewrite
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites, named

RULE = "cache_after_zip"
Dataset = tf.data.Dataset
NUMBERS = Dataset.range(9)
SQUARES = Dataset.range(9).map(tf.square)


def noisy(x):
    return x + tf.random.uniform((), 0, 99, tf.int64)


@pytest.mark.parametrize("keeps", Keeps)
def test_sides_are_cached_as_one(keeps):
    zipped = Dataset.zip({"x": (NUMBERS.cache(), SQUARES.cache())})
    assert_rewrites(RULE, zipped, "zip()[range(0, 9), range(0, 9) | map(square)] | cache()", keeps)


def test_what_a_cache_froze_stays_frozen():
    drawn = Dataset.zip((NUMBERS.shuffle(9).cache(), NUMBERS.map(noisy).cache()))
    after = build(apply(RULE, drawn).after)
    assert list(after.as_numpy_iterator()) == list(after.as_numpy_iterator())


def test_a_small_side_without_a_cache_is_kept_with_the_others():
    labelled = Dataset.zip((SQUARES.cache(), Dataset.from_tensor_slices(np.arange(12)).take(9)))
    assert_rewrites(RULE, labelled, "zip()[range(0, 9) | map(square), tensor_slices | take(9)] | cache()")


def test_the_cache_can_then_stand_after_the_batch():
    zipped = Dataset.zip((NUMBERS.cache(), SQUARES.cache())).batch(4)
    rules = [named(RULE), named("cache_after_batch")]
    done = rewrite(extract(zipped), rules, keeps=Keeps.SEQUENCE, measurements=Answers())
    assert [step.rule for step in done.steps] == [RULE, "cache_after_batch"]
    assert compare(zipped, build(done.after), Keeps.SEQUENCE, epochs=2) is None


@pytest.mark.parametrize(
    "dataset",
    [
        Dataset.zip((NUMBERS, SQUARES)),
        Dataset.zip((NUMBERS.cache().shuffle(3), SQUARES.cache().map(lambda x: x))),
        Dataset.zip((NUMBERS.cache(), Dataset.range(8).cache())),
        Dataset.zip((NUMBERS.cache(), Dataset.range(8))),
        Dataset.zip((NUMBERS.filter(lambda x: x < 5).cache(), SQUARES.cache())),
    ],
    ids=["no caches", "something after them", "other lengths", "a shorter side", "a number that is not known"],
)
def test_leaves_other_zips_and_caches_that_are_not_known_to_be_read_whole(dataset):
    assert_no_match(RULE, dataset)


def test_a_longer_side_that_is_not_cached_is_cut_where_the_caches_end():
    zipped = Dataset.zip((NUMBERS.cache(), Dataset.counter()))
    assert_rewrites(RULE, zipped, one_line(apply(RULE, zipped).after))
    assert one_line(apply(RULE, zipped).after).endswith("| cache()")


@pytest.mark.parametrize("after", [lambda drawn: drawn, lambda drawn: drawn.map(lambda x: x + 1).prefetch(1)])
def test_leaves_a_cache_of_what_was_drawn_that_is_never_full_and_so_is_drawn_anew_in_every_epoch(after):
    def zipped():
        return Dataset.zip((NUMBERS.cache(), after(Dataset.range(5_000).shuffle(5_000, seed=1).cache())))

    optimized = autopipe.optimize(zipped(), keeps="sequence", rules=[RULE])
    assert optimized.plan.rules == ()
    assert compare(zipped(), optimized, Keeps.SEQUENCE, epochs=3) is None


def test_a_cache_of_what_was_drawn_is_kept_with_the_others_where_it_is_full():
    drawn = Dataset.zip((NUMBERS.cache(), Dataset.range(9).shuffle(9, seed=1).cache()))
    assert autopipe.optimize(drawn, keeps="sequence", rules=[RULE]).plan.rules == (RULE,)


def test_refuses_a_side_that_changes_between_epochs():
    zipped = Dataset.zip((NUMBERS.cache(), NUMBERS.shuffle(9)))
    assert_refuses(RULE, zipped, "shuffle(9) gives each repetition its own order")


def test_refuses_a_large_side_that_nobody_cached():
    zipped = Dataset.zip((NUMBERS.cache(), Dataset.from_tensor_slices(np.zeros((9, 1000)))))
    large = Answers(element_bytes=lambda node: 1e7 if "tensor_slices" in one_line(node) else 8.0)
    assert_refuses(RULE, zipped, "9 elements would be held, at", answers=large)


def test_refuses_a_cache_that_others_read_too():
    cache = NUMBERS.shuffle(9).cache()
    twice = Dataset.zip((cache, SQUARES.cache())).map(lambda number, square: number + square).concatenate(cache)
    assert_refuses(RULE, twice, "cache() is read twice, and both readers get its elements from it")


def test_refuses_under_ignore_errors():
    zipped = Dataset.zip((NUMBERS.cache(), SQUARES.cache()))
    assert_refuses(RULE, zipped.ignore_errors(), "ignore_errors() would drop them too")


def test_refuses_a_cache_file(tmp_path):
    zipped = Dataset.zip((NUMBERS.cache(str(tmp_path / "elements")), SQUARES.cache()))
    assert_refuses(RULE, zipped, "may already hold elements of the old place")


def test_refuses_where_the_end_is_not_read():
    assert_refuses(RULE, Dataset.zip((NUMBERS.cache(), SQUARES.cache())).take(3), "may stop before its end")


def test_refuses_what_does_not_fit():
    zipped = Dataset.zip((NUMBERS.cache(), SQUARES.cache()))
    assert_refuses(RULE, zipped, "above the RAM budget", answers=Answers(ram_budget=500))
