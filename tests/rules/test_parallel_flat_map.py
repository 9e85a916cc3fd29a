import pytest
import tensorflow as tf

from autopipe.pipeline.build import build
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "parallel_flat_map"
AHEAD = "interleave(lines, cycle=1, calls=AUTOTUNE, deterministic=True)"


def lines(file):
    return tf.data.TextLineDataset(file).skip(1)


@pytest.fixture
def files(tmp_path):
    for number in range(11):
        text = "".join(f"{number}-{line}\n" for line in range(number * 7 % 29))
        (tmp_path / f"{number:02}.txt").write_text(text)
    return tf.data.Dataset.from_tensor_slices(sorted(str(path) for path in tmp_path.iterdir()))


@pytest.mark.parametrize("keeps", Keeps)
def test_opens_the_next_files_ahead_and_keeps_the_sequence(files, keeps):
    assert_rewrites(RULE, files.flat_map(lines), f"tensor_slices | {AHEAD}", keeps)


def test_a_shuffled_list_of_files_and_a_repeated_one_stay_exact(files):
    for source in (files.shuffle(11, seed=3), files.repeat(3), files.take(0)):
        dataset = source.flat_map(lines)
        assert compare(dataset, build(apply(RULE, dataset).after), Keeps.SEQUENCE) is None


def test_a_missing_file_still_fails_after_all_elements_before_it(files):
    dataset = files.concatenate(tf.data.Dataset.from_tensors("/nowhere")).concatenate(files).flat_map(lines)
    assert compare(dataset, build(apply(RULE, dataset).after), Keeps.SEQUENCE) is None


def test_refuses_where_errors_are_ignored(files):
    assert_refuses(RULE, files.flat_map(lines).ignore_errors(), "ignore_errors() would leave out other elements")


def test_refuses_a_function_that_keeps_state(files):
    def printing(file):
        tf.print(file, output_stream="file:///dev/null")
        return tf.data.TextLineDataset(file)

    assert_refuses(RULE, files.flat_map(printing), "keeps state (PrintV2)")


def test_refuses_to_hold_many_large_elements(files):
    large = Answers(element_bytes=lambda node: 10 * 2**20, ram_budget=10**9)
    assert_refuses(RULE, files.flat_map(lines), "160 elements at once take 1.56 GiB", answers=large)


def test_refuses_what_is_not_faster(files):
    assert_refuses(RULE, files.flat_map(lines), "measured 0.80x", answers=Answers(speed=(0.8, 0.7, 0.9)))


def test_does_not_match_where_no_file_is_read():
    assert_no_match(RULE, tf.data.Dataset.range(5).flat_map(tf.data.Dataset.range))
