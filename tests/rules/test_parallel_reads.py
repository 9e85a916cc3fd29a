import pytest
import tensorflow as tf

from autopipe.pipeline.build import build
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "parallel_reads"
AHEAD = "interleave(read, cycle=1, calls=AUTOTUNE, deterministic=True)"


@pytest.fixture
def files(tmp_path):
    for number in range(9):
        records = [f"{number}-{line:03}".encode() for line in range(number * 5 % 23)]
        (tmp_path / f"{number}.txt").write_bytes(b"".join(record + b"\n" for record in records))
        for ending, compression in (("tfrecord", None), ("gz", "GZIP")):
            with tf.io.TFRecordWriter(str(tmp_path / f"{number}.{ending}"), compression) as writer:
                for record in records:
                    writer.write(record)
    return lambda ending: sorted(str(path) for path in tmp_path.glob(f"*.{ending}"))


@pytest.mark.parametrize("keeps", Keeps)
def test_reads_the_next_files_ahead_and_keeps_the_sequence(files, keeps):
    dataset = tf.data.TFRecordDataset(files("tfrecord"), name="records")
    assert_rewrites(RULE, dataset, f"tensor_slices as 'records' | {AHEAD} as 'records'", keeps)


def test_every_kind_of_reader_keeps_its_arguments(files):
    for dataset in (
        tf.data.TFRecordDataset(files("gz"), "GZIP", buffer_size=1000),
        tf.data.TextLineDataset(files("txt"), buffer_size=100),
        tf.data.FixedLengthRecordDataset(files("txt")[1:2] * 3, 3, header_bytes=1, footer_bytes=2),
    ):
        done = apply(RULE, dataset)
        assert [step.rule for step in done.steps] == [RULE]
        assert compare(dataset, build(done.after), Keeps.SEQUENCE) is None


def test_a_shuffled_list_of_files_stays_as_shuffled(files):
    names = tf.data.Dataset.from_tensor_slices(files("txt")).shuffle(9, seed=5)
    dataset = tf.data.TextLineDataset(names)
    assert compare(dataset, build(apply(RULE, dataset).after), Keeps.SEQUENCE) is None


def test_a_missing_file_still_fails_after_all_elements_before_it(files):
    dataset = tf.data.TextLineDataset([*files("txt"), "/nowhere", *files("txt")])
    assert compare(dataset, build(apply(RULE, dataset).after), Keeps.SEQUENCE) is None


def test_refuses_where_errors_are_ignored(files):
    assert_refuses(RULE, tf.data.TextLineDataset(files("txt")).ignore_errors(), "ignore_errors()")


def test_refuses_to_hold_many_large_elements(files):
    large = Answers(element_bytes=lambda node: 10 * 2**20, ram_budget=10**9)
    assert_refuses(RULE, tf.data.TextLineDataset(files("txt")), "160 elements at once take 1.56 GiB", answers=large)


def test_refuses_what_is_not_faster(files):
    slower = Answers(speed=(0.8, 0.7, 0.9))
    assert_refuses(RULE, tf.data.TextLineDataset(files("txt")), "measured 0.80x", answers=slower)


def test_does_not_match_one_file_or_a_reader_that_is_parallel_already(files):
    assert_no_match(RULE, tf.data.TextLineDataset(files("txt")[:1]))
    assert_no_match(RULE, tf.data.TextLineDataset(files("txt"), num_parallel_reads=2))
