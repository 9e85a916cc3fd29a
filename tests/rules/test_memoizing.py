"""Numbers tell elements apart, and are the same in every epoch, however elements are read, moved and chosen."""

from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from pipelines import FILES

from autopipe.optimizer import rewrite
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.signature import signature
from autopipe.planning.measuring.count import most_elements
from autopipe.rules import Keeps, catalogue
from autopipe.rules._memoizing import numbered
from sides import Answers, apply

Dataset = tf.data.Dataset
LINES = [line for name in FILES for line in Path(name).read_text().split()]
NAMES = Dataset.from_tensor_slices(FILES)


def lines(name):
    return tf.data.TextLineDataset(name)


def digits(number):
    return Dataset.from_tensors(tf.strings.as_string(number))


def twice(name):
    return tf.data.TextLineDataset(name).take(3).concatenate(tf.data.TextLineDataset(name).skip(3))


def marked(line):
    return tf.strings.upper(tf.strings.join([line, "x"]))


def freed(dataset):
    options = tf.data.Options()
    options.deterministic = False
    return dataset.with_options(options)


READERS = {
    "a reader of shuffled names": lambda: tf.data.TextLineDataset(NAMES.shuffle(3)),
    "a reader of several at once": lambda: tf.data.TextLineDataset(FILES, num_parallel_reads=tf.data.AUTOTUNE),
    "both": lambda: tf.data.TextLineDataset(NAMES.shuffle(3), num_parallel_reads=tf.data.AUTOTUNE),
    "flat_map": lambda: NAMES.shuffle(3).flat_map(lines),
    "interleave": lambda: NAMES.shuffle(3).interleave(twice, cycle_length=2, block_length=2),
    "in parallel": lambda: NAMES.interleave(lines, num_parallel_calls=2, deterministic=False, cycle_length=3),
    "where the order is free": lambda: freed(NAMES.interleave(lines, num_parallel_calls=2)),
    "where names are repeated": lambda: NAMES.shuffle(3).repeat(2).flat_map(lines),
    "some of the names": lambda: NAMES.shuffle(3).take(2).flat_map(lines),
    "two readers": lambda: NAMES.shuffle(3).flat_map(lines).concatenate(tf.data.TextLineDataset(NAMES.shuffle(3))),
    "drawn": lambda: Dataset.sample_from_datasets(
        [NAMES.shuffle(3).flat_map(lines), Dataset.from_tensor_slices(LINES).shuffle(9)]
    ),
    "filtered": lambda: NAMES.shuffle(3).flat_map(lines).filter(lambda line: tf.strings.length(line) > 1),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", READERS)
def test_each_element_has_one_number_of_its_own(name):
    elements, source = numbered(extract(READERS[name]()))
    seen = {}
    # Where two names of three are read, each was among them after so many epochs.
    for _epoch in range(20 if name == "some of the names" else 4):
        for number, line in build(elements).as_numpy_iterator():
            assert seen.setdefault(int(number), line) == line
    assert set(seen.values()) == {line.encode() for line in LINES}
    assert len(seen) <= most_elements(source)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("make", READERS.values(), ids=READERS)
def test_what_is_kept_is_that_of_the_element(make):
    def written():
        return make().map(marked).ignore_errors()

    done = apply("cache_results", written())
    assert [step.rule for step in done.steps] == ["cache_results"]
    dataset, plain = build(done.after), written()
    for _epoch in range(3):
        ours, theirs = (sorted(side.as_numpy_iterator()) for side in (dataset, plain))
        if make is READERS["some of the names"]:
            files = [{marked(line).numpy() for line in Path(name).read_text().split()} for name in FILES]
            assert set(ours) == set().union(*(file for file in files if file & set(ours)))
        else:
            assert ours == theirs


def test_the_order_stays_where_it_is_not_free():
    def read():
        names = NAMES.shuffle(3, seed=4)
        return names.interleave(lines, cycle_length=2, block_length=3, num_parallel_calls=2, deterministic=True)

    done = apply("cache_results", read().take(9).map(tf.strings.upper), Keeps.SEQUENCE)
    assert not done.steps
    done = apply("cache_results", read().take(9).map(tf.strings.upper), Keeps.ELEMENTS)
    assert [step.rule for step in done.steps] == ["cache_results"]
    dataset, plain = build(done.after), read().take(9).map(tf.strings.upper)
    for _epoch in range(3):
        assert list(dataset.as_numpy_iterator()) == list(plain.as_numpy_iterator())


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: NAMES.shuffle(3).flat_map(lambda name: lines(name).shuffle(9)), "keeps state"),
        (lambda: tf.data.TextLineDataset(NAMES.shuffle(3), num_parallel_reads=2), "shuffle(3) gives each"),
        (lambda: NAMES.shuffle(3).flat_map(lines).map(lambda x: FILES[0]).flat_map(lines), "shuffle(3) gives each"),
        (lambda: freed(tf.data.TextLineDataset(FILES, num_parallel_reads=2)), "may free the order"),
        (lambda: Dataset.range(2**21).shuffle(3).flat_map(digits), "shuffle(3) gives each"),
    ],
)
def test_what_cannot_be_numbered_is_kept_by_nothing(make, reason):
    dataset = make().take(5).map(tf.strings.upper)
    done = apply("cache_results", dataset)
    assert not done.steps
    refusals = [*done.refusals, *apply("cache_fixed_work", dataset).refusals]
    assert any(reason in refusal.reason for refusal in refusals)


def test_elements_of_many_files_are_forecast_as_they_are_without_numbers():
    elements, source = numbered(extract(tf.data.TextLineDataset(NAMES.shuffle(3))))
    assert len(LINES) <= most_elements(source) <= 2 * len(LINES)
    assert signature(elements).element_spec == (tf.TensorSpec((), tf.int64), tf.TensorSpec((), tf.string))


STAGES = {
    "shuffle": lambda dataset: dataset.shuffle(4),
    "take": lambda dataset: dataset.take(7),
    "repeat": lambda dataset: dataset.repeat(2),
    "shard": lambda dataset: dataset.shard(2, 0),
    "filter": lambda dataset: dataset.filter(lambda line: line != "10"),
    "free": freed,
}


@given(reader=st.sampled_from(sorted(READERS)), stages=st.lists(st.sampled_from(sorted(STAGES)), max_size=3))
def test_whatever_comes_between_results_are_those_of_their_elements(reader, stages):
    dataset = READERS[reader]()
    for stage in stages:
        dataset = STAGES[stage](dataset)
    paired = dataset.map(lambda line: (line, marked(line)))
    rules = [rule for rule in catalogue() if rule.name == "cache_results"]
    done = rewrite(extract(paired), rules, keeps=Keeps.TRAINING, measurements=Answers())
    made = build(done.after)
    for _epoch in range(3):
        pairs = list(made.as_numpy_iterator())
        assert all(result == line.upper() + b"X" for line, result in pairs)
        if "take" not in stages and "shard" not in stages and reader not in ("some of the names", "drawn"):
            assert sorted(line for line, _ in pairs) == sorted(line for line, _ in paired.as_numpy_iterator())
