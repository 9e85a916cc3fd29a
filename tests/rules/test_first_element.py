"""How long the first element waits for the work on others, where a cache goes before a shuffle."""

import pytest
import tensorflow as tf

from autopipe.pipeline.text import one_line
from autopipe.runtime.caches.filling import while_filling
from sides import Answers, apply, assert_refuses

RULE = "cache_fixed_work"
SLOW = Answers(caching=(0.1, 1e-5))
Dataset = tf.data.Dataset
NAMES = Dataset.from_tensor_slices([str(number) for number in range(1000)])


def parse(text):
    return tf.strings.to_number(text)


def parse_twice(text):
    return tf.strings.to_number(text + text)


PARSED = NAMES.shuffle(1000).map(parse)


@pytest.mark.parametrize("shuffle", [{"buffer_size": 1000, "seed": 3}, {"buffer_size": 500}], ids=["seeded", "partial"])
def test_refuses_where_the_first_element_would_wait_long_for_the_work_on_others(shuffle):
    held, seconds = shuffle["buffer_size"], shuffle["buffer_size"] // 20
    waits = f"waits at least {seconds} s for the work on the {held:,} elements that shuffle({held}"
    assert_refuses(RULE, NAMES.shuffle(**shuffle).map(parse), f"no longer than 5 s, but this one {waits}", answers=SLOW)


def test_says_how_long_the_first_element_waits_where_that_is_short():
    done = apply(RULE, NAMES.shuffle(100, seed=3).map(parse), answers=Answers())
    waits = "waits at least 50 ms for the work on the 100 elements that shuffle(100, seed=3) holds"
    assert f"the first element of the first epoch {waits}" in done.steps[0].reasons


@pytest.mark.parametrize(
    "dataset",
    [
        NAMES.map(tf.strings.upper).shuffle(1000).map(parse),
        PARSED.repeat(2),
        NAMES.repeat(2).shuffle(2000).map(parse),
        Dataset.zip((NAMES.map(parse).cache(), PARSED)),
        PARSED.concatenate(PARSED),
    ],
    ids=["after a map", "repeated", "repeated before", "beside another cache", "read twice"],
)
def test_refuses_where_a_shuffle_of_all_elements_cannot_stand_before_the_work_meanwhile(dataset):
    refusals = apply(RULE, dataset, answers=SLOW).refusals
    assert any("a first element may wait no longer than 5 s" in each.reason for each in refusals)


@pytest.mark.parametrize("asserted", [False, True])
def test_a_second_cache_is_refused_where_the_shuffle_after_the_first_would_begin_to_wait_long(asserted):
    first = PARSED.apply(tf.data.experimental.assert_cardinality(1000)) if asserted else PARSED
    done = apply(RULE, Dataset.zip((first, NAMES.map(parse_twice))), answers=SLOW)
    assert one_line(done.after).count("cache()") == 1
    assert any("a first element may wait no longer than 5 s, but" in each.reason for each in done.refusals)


def test_a_second_cache_says_how_long_the_shuffle_after_the_first_begins_to_wait():
    done = apply(RULE, Dataset.zip((PARSED, NAMES.map(parse_twice))), answers=Answers())
    assert one_line(done.after).count("cache()") == 2
    waits = "waits at least 500 ms for the work on the 1,000 elements that shuffle(1000) holds"
    assert any(f"the first element of the first epoch {waits}" in step.reasons for step in done.steps)


def test_what_the_author_let_wait_already_is_cached():
    dataset = NAMES.map(parse).shuffle(1000, seed=3).batch(10)
    assert "map(parse) | cache() | shuffle(1000, seed=3)" in one_line(apply(RULE, dataset, answers=SLOW).after)


def test_a_repeat_of_one_epoch_changes_nothing():
    done = apply(RULE, PARSED.repeat(1), answers=SLOW)
    assert one_line(done.after) == "tensor_slices | map(parse) | cache() | shuffle(1000) | repeat(1)"
    assert one_line(while_filling(done.after)) == "tensor_slices | shuffle(1000) | map(parse) | cache() | repeat(1)"


def test_a_shuffle_of_all_elements_stands_before_the_work_meanwhile_so_that_nothing_waits():
    done = apply(RULE, PARSED, answers=SLOW)
    assert one_line(done.after) == "tensor_slices | map(parse) | cache() | shuffle(1000)"
    under_a_repeat = (
        "the first element does not wait, but under a repeat() after optimize() it waits at least 50 s "
        "for the work on the 1,000 elements that shuffle(1000) holds"
    )
    assert under_a_repeat in done.steps[0].reasons
    quick = apply(RULE, PARSED, answers=Answers())
    unknown = apply(RULE, PARSED, answers=Answers(caching=(0.1, 1e-5), most_elements=None))
    for each in (quick, unknown):
        assert not any("wait" in reason for reason in each.steps[0].reasons)
