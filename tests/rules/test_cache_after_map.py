import pytest
import tensorflow as tf

from autopipe.pipeline import ir
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "cache_after_map"


def double(x):
    return x * 2


def noisy(x):
    return tf.cast(x, tf.float32) + tf.random.uniform(())


def read(path):
    return tf.io.read_file(path)


@pytest.mark.parametrize("keeps", Keeps)
def test_moves_the_cache_behind_a_function_that_only_computes(keeps):
    dataset = tf.data.Dataset.range(9).cache().map(double)
    assert_rewrites(RULE, dataset, "range(0, 9) | map(double) | cache()", keeps)


def test_a_cache_that_others_read_too_stays_where_they_find_it():
    cache = tf.data.Dataset.range(6).shuffle(6).take(3).cache()
    assert_refuses(RULE, cache.concatenate(cache.map(lambda x: -x)), "both readers get the same from it")


def test_moves_the_cache_behind_several_maps_and_stops_at_the_random_one():
    dataset = tf.data.Dataset.range(9).cache().map(double).map(double, num_parallel_calls=2).map(noisy)
    done = apply(RULE, dataset, Keeps.SEQUENCE)
    assert one_line(done.after) == "range(0, 9) | map(double) | map(double, calls=2) | cache() | map(noisy)"
    assert "draws random numbers (RandomUniform)" in done.refusals[0].reason


def test_moves_the_cache_behind_a_function_after_a_shuffle_and_a_repeat_that_mix_what_is_no_larger():
    dataset = tf.data.Dataset.range(9).cache().shuffle(4, seed=3).repeat(2).map(double)
    result = "range(0, 9) | map(double) | cache() | shuffle(4, seed=3) | repeat(2)"
    assert_rewrites(RULE, dataset, result)


def test_refuses_to_have_a_shuffle_and_a_cache_hold_what_is_larger():
    dataset = tf.data.Dataset.range(9).cache().shuffle(4).map(lambda x: tf.fill([100_000], x))
    answers = Answers(element_bytes=lambda node: 8.0 if isinstance(node, ir.Range) else 800_000.0)
    assert_refuses(RULE, dataset, "would be held, at 800,000 bytes each instead of 8", answers=answers)


def test_refuses_to_work_on_all_that_a_shuffle_holds_where_few_of_them_are_taken():
    dataset = tf.data.Dataset.range(99).cache().shuffle(50).map(double).take(10)
    assert_refuses(RULE, dataset, "take(10) may stop before its end")


def test_moves_the_cache_behind_file_reads_and_says_what_that_assumes(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    dataset = tf.data.Dataset.list_files(str(tmp_path / "*")).cache().map(read)
    done = assert_rewrites(RULE, dataset, "tensor_slices | shuffle(1) | map(read) | cache()")
    assert "assumes the files stay as they are" in done.steps[0].proofs[0].because


def test_refuses_file_reads_where_the_sequence_is_promised(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    dataset = tf.data.Dataset.list_files(str(tmp_path / "*"), shuffle=False).cache().map(read)
    assert_refuses(RULE, dataset, "may change between epochs", Keeps.SEQUENCE)


def test_refuses_a_random_function():
    assert_refuses(RULE, tf.data.Dataset.range(9).cache().map(noisy), "draws random numbers")


def test_refuses_a_function_that_reads_a_variable():
    factor = tf.Variable(2, dtype=tf.int64)
    assert_refuses(RULE, tf.data.Dataset.range(9).cache().map(lambda x: x * factor), "reads a variable")


def test_refuses_a_python_function():
    dataset = tf.data.Dataset.range(9).cache().map(lambda x: tf.py_function(lambda y: y, [x], tf.int64))
    assert_refuses(RULE, dataset, "runs Python code (EagerPyFunc)")


def test_refuses_a_file_cache(tmp_path):
    dataset = tf.data.Dataset.range(9).cache(str(tmp_path / "cache")).map(double)
    assert_refuses(RULE, dataset, "may already hold elements of the old place")


def test_refuses_results_above_the_ram_budget():
    answers = Answers(cache_bytes=3 * 2**20, ram_budget=2**20)
    dataset = tf.data.Dataset.range(9).cache().map(double)
    assert_refuses(RULE, dataset, "3 MiB (8 bytes for each element), above the RAM budget of 1 MiB", answers=answers)


def test_does_not_match_without_a_cache():
    assert_no_match(RULE, tf.data.Dataset.range(9).map(double).cache())
