import numpy as np
import pytest
import tensorflow as tf

from autopipe.optimizer import rewrite
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules import Keeps, catalogue
from sides import assert_no_match, assert_refuses, assert_rewrites

RULE = "shuffle_fewer_bytes"
DRAW = np.random.default_rng(0)
PHOTOGRAPHS = [tf.io.encode_jpeg(DRAW.integers(0, 255, (64, 64, 3), dtype=np.uint8)).numpy() for _ in range(12)]
JPEGS = tf.data.Dataset.from_tensor_slices(PHOTOGRAPHS)
CUT = "map(first part of thumbnail) | {} | map(rest of thumbnail)"


def thumbnail(jpeg):
    image = tf.io.decode_jpeg(jpeg, channels=3)
    small = tf.image.resize(image, (16, 16), method="nearest")
    return tf.cast(small, tf.float32) * 2.0 - 255.0


def measured():
    return SampleMeasurements()


@pytest.mark.parametrize("shuffle", ["shuffle(100000, seed=1)", "shuffle(-2, seed=1)"])
def test_the_buffer_holds_the_smallest_that_elements_ever_are_in_the_same_order(shuffle):
    size = int(shuffle[8:].split(",")[0])
    dataset = JPEGS.map(thumbnail).shuffle(size, seed=1)
    done = assert_rewrites(RULE, dataset, f"tensor_slices | {CUT.format(shuffle)}", Keeps.SEQUENCE, answers=measured())
    assert "at 768 bytes each at the cut instead of " in done.steps[0].proofs[-1].because


def test_calls_and_order_of_both_parts_stay():
    dataset = JPEGS.map(thumbnail, num_parallel_calls=2, deterministic=True).shuffle(100_000, seed=4).batch(4)
    expected = (
        "tensor_slices | map(first part of thumbnail, calls=2, deterministic=True) | shuffle(100000, seed=4) "
        "| map(rest of thumbnail, calls=2, deterministic=True) | batch(4)"
    )
    assert_rewrites(RULE, dataset, expected, Keeps.SEQUENCE, answers=measured())


def test_the_rest_goes_after_a_shuffle_and_its_repeat_which_stay_one_stage():
    dataset = JPEGS.map(thumbnail).shuffle(100_000, seed=1).repeat(2)
    expected = f"tensor_slices | {CUT.format('shuffle(100000, seed=1) | repeat(2)')}"
    assert_rewrites(RULE, dataset, expected, Keeps.SEQUENCE, answers=measured())


def test_refuses_a_buffer_that_is_small_in_any_case():
    dataset = JPEGS.map(thumbnail).shuffle(10)
    assert_refuses(RULE, dataset, "10 elements are held, at 768 bytes each at the cut instead of", answers=measured())


def test_a_broken_photograph_is_still_left_out_before_the_shuffle():
    dataset = tf.data.Dataset.from_tensor_slices([*PHOTOGRAPHS, b"broken"]).map(thumbnail).shuffle(100_000, seed=1)
    expected = f"tensor_slices | {CUT.format('shuffle(100000, seed=1)')} | ignore_errors()"
    assert_rewrites(RULE, dataset.ignore_errors(), expected, Keeps.SEQUENCE, answers=measured())


def test_refuses_a_rest_that_may_fail_where_errors_are_ignored():
    def checked(jpeg):
        image = thumbnail(jpeg)
        with tf.control_dependencies([tf.debugging.assert_less(image, 1000.0)]):
            return tf.identity(image)

    dataset = JPEGS.map(checked).shuffle(100_000).ignore_errors()
    assert_refuses(RULE, dataset, "ignore_errors() would leave out other elements", answers=measured())


def test_refuses_what_cannot_be_sampled():
    once = tf.data.Dataset.from_generator(lambda: iter(PHOTOGRAPHS), output_signature=tf.TensorSpec((), tf.string))
    dataset = once.map(thumbnail).shuffle(100_000)
    assert_refuses(RULE, dataset, "the size of its elements is not known", answers=measured())


def test_does_not_match_what_draws_what_only_computes_and_what_never_grows_again():
    def noisy(jpeg):
        return thumbnail(jpeg) + tf.random.uniform(())

    assert_no_match(RULE, JPEGS.map(noisy).shuffle(100_000))
    assert_no_match(RULE, tf.data.Dataset.range(9).map(lambda x: tf.cast(x, tf.float32) * 2).shuffle(100_000))
    assert_no_match(RULE, JPEGS.map(lambda jpeg: tf.io.decode_jpeg(jpeg, channels=3)).shuffle(100_000))


def test_a_whole_map_goes_after_the_shuffle_where_its_input_is_smallest():
    def of_a_path(path):
        return thumbnail(tf.io.read_file(path))

    paths = tf.data.Dataset.from_tensor_slices(["a.jpg", "b.jpg"])
    both = [rule for rule in catalogue() if rule.name in {RULE, "shuffle_before_map"}]
    done = rewrite(extract(paths.map(of_a_path).shuffle(100_000)), both, keeps=Keeps.TRAINING, measurements=measured())
    assert one_line(done.after) == "tensor_slices | shuffle(100000) | map(of_a_path)"
