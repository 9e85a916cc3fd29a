import numpy as np
import pytest
import tensorflow as tf

from autopipe.pipeline.build import build
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import AlwaysFaster, Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "vectorize_rest"
Dataset = tf.data.Dataset
JPEGS = [tf.io.encode_jpeg(np.full((9 + size, 12, 3), 20 * size, np.uint8)).numpy() for size in range(8)]


def images(count=64):
    return Dataset.from_tensor_slices(np.arange(count * 12, dtype=np.float32).reshape(count, 2, 2, 3) % 251)


def seeded_flip(image):
    return tf.image.random_flip_left_right(image, seed=3) * 2.0 - 1.0


def decode(jpeg):
    return tf.cast(tf.image.resize(tf.io.decode_jpeg(jpeg, channels=3), (4, 4)), tf.int32) * 2 + 1


@pytest.mark.parametrize("keeps", Keeps)
def test_draws_stay_with_elements_and_arithmetic_goes_to_the_batch(keeps):
    expected = "tensor_slices | map(first part of seeded_flip) | batch(8) | map(vectorized rest of seeded_flip)"
    assert_rewrites(RULE, images().map(seeded_flip).batch(8), expected, keeps)


def test_what_has_no_known_shape_stays_with_elements():
    dataset = Dataset.from_tensor_slices(JPEGS).map(decode, num_parallel_calls=2).batch(3, drop_remainder=True)
    expected = (
        "tensor_slices | map(first part of decode, calls=2) | batch(3, drop_remainder=True) "
        "| map(vectorized rest of decode, calls=AUTOTUNE)"
    )
    assert_rewrites(RULE, dataset, expected, Keeps.SEQUENCE)


def test_every_image_of_a_batch_gets_a_flip_and_a_crop_of_its_own():
    ramp = tf.tile(tf.reshape(tf.range(32.0), (1, 32, 1)), (32, 1, 3))

    def augment(image):
        return tf.image.random_flip_left_right(tf.image.random_crop(image, (8, 8, 3))) / 32.0

    done = apply(RULE, Dataset.from_tensors(ramp).repeat(64).map(augment).batch(64))
    assert [step.rule for step in done.steps] == [RULE]
    (batch,) = build(done.after)
    corners = batch[:, 0, 0, 0].numpy()
    flipped = (batch[:, 0, 0, 0] > batch[:, 0, -1, 0]).numpy()
    assert 10 < flipped.sum() < 54
    assert len(set(corners)) > 15


def test_an_epoch_draws_other_numbers_than_the_one_before():
    dataset = Dataset.from_tensors([1.0]).repeat(32).map(lambda x: x + tf.random.uniform(())).batch(32)
    after = build(apply(RULE, dataset).after)
    first, second = (next(iter(after)).numpy() for _ in range(2))
    assert len(np.unique(first)) == 32
    assert not np.intersect1d(first, second).size


def test_refuses_where_rounding_may_differ_and_the_sequence_is_kept():
    dataset = images().map(lambda x: tf.sin(tf.image.random_flip_up_down(x, seed=1))).batch(4)
    assert_refuses(RULE, dataset, "since floats may round differently in a batch", Keeps.SEQUENCE)


def test_refuses_where_it_is_not_faster():
    dataset = images().map(seeded_flip).batch(8)
    assert_refuses(RULE, dataset, "measured 0.90x", answers=Answers(speed=(0.9, 0.8, 1.0)))


def test_refuses_results_so_large_that_calls_cost_little_beside_the_work():
    dataset = images().map(seeded_flip).batch(8)
    assert_refuses(RULE, dataset, "with results of 1,024 KiB", answers=Answers(element_bytes=lambda node: 2.0**20))


def test_refuses_where_errors_are_ignored_and_the_rest_may_fail():
    gathered = images().map(lambda x: tf.gather(x, tf.cast(tf.random.uniform((1,)), tf.int32)) * 2.0).batch(8)
    assert_refuses(RULE, gathered.ignore_errors(), "rest of <lambda> may fail (GatherV2)")


def test_does_not_match_what_is_vectorized_whole_or_not_at_all():
    assert_no_match(RULE, images().map(lambda x: x * 2.0).batch(8))
    assert_no_match(RULE, images().map(lambda x: tf.random.uniform(())).batch(8))
    assert_no_match(RULE, images().map(lambda x: tf.numpy_function(np.sin, [x], tf.float32)).batch(8))


def test_a_variable_is_read_for_every_element_as_before():
    scale = tf.Variable(2.0)
    dataset = images().map(lambda x: tf.image.random_flip_up_down(x, seed=1) * scale).batch(8)
    after = build(apply(RULE, dataset).after)
    scale.assign(3.0)
    assert compare(dataset, after, Keeps.SEQUENCE) is None


def test_refuses_to_read_ahead_of_draws_that_may_be_anothers():
    generator = tf.random.Generator.from_seed(1)

    def augment(x):
        return tf.sin(x) * tf.cast(generator.uniform([]) < 0.5, tf.float32)

    rows = tf.data.Dataset.from_tensor_slices(np.ones((64, 8), np.float32))
    assert_refuses(RULE, rows.map(augment).batch(8), "draws from a generator", Keeps.ELEMENTS, AlwaysFaster())
