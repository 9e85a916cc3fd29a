import numpy as np
import tensorflow as tf

from autopipe.functions.cheaper.compiled import is_compiled
from autopipe.pipeline.build import build
from autopipe.rules import Keeps
from sides import Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "compile_map"
Dataset = tf.data.Dataset
IMAGES = np.random.default_rng(0).integers(0, 255, (24, 40, 40, 3), dtype=np.uint8)


def images():
    return Dataset.from_tensor_slices(IMAGES)


def normalize(image):
    return (tf.cast(image, tf.float32) / 255.0 - 0.4) / 0.2


def seeded(image):
    return tf.image.random_flip_left_right(normalize(image), seed=3)


def test_arithmetic_is_compiled_and_elements_stay_but_for_rounding():
    expected = "tensor_slices | map(compiled normalize, calls=2) | batch(4)"
    done = assert_rewrites(RULE, images().map(normalize, num_parallel_calls=2).batch(4), expected, Keeps.ELEMENTS)
    assert is_compiled(done.after.input.fn)
    assert done.steps[0].keeps is Keeps.ELEMENTS


def test_a_seed_draws_the_numbers_that_it_drew():
    assert_rewrites(RULE, images().map(seeded).batch(4), "tensor_slices | map(compiled seeded) | batch(4)")


def test_a_batch_is_compiled_too_and_a_last_one_that_is_smaller_stays_right():
    dataset = images().batch(7).map(lambda batch: normalize(batch) * 2.0)
    assert_no_match(RULE, dataset)
    whole = images().batch(6, drop_remainder=True).map(normalize)
    expected = "tensor_slices | batch(6, drop_remainder=True) | map(compiled normalize)"
    assert_rewrites(RULE, whole, expected, Keeps.ELEMENTS)


def test_every_image_still_gets_a_draw_of_its_own():
    one = Dataset.from_tensors(IMAGES[0]).repeat(32).map(lambda x: normalize(x) + tf.random.uniform(()))
    after = build(apply(RULE, one).after)
    first, second = ({float(image[0, 0, 0]) for image in after} for _ in range(2))
    assert len(first) == len(second) == 32
    assert not first & second


def test_refuses_another_rounding_where_the_sequence_is_kept():
    assert_refuses(
        RULE, images().map(normalize), "since floats may round differently where XLA computes them", Keeps.SEQUENCE
    )


def test_refuses_where_it_is_not_faster():
    assert_refuses(RULE, images().map(normalize), "measured 1.00x", answers=Answers(speed=(1.0, 0.9, 1.1)))


def test_does_not_match_twice_nor_small_elements():
    done = apply(RULE, images().map(normalize))
    assert [step.rule for step in done.steps] == [RULE]
    assert_no_match(RULE, Dataset.range(9).map(lambda x: tf.cast(x, tf.float32) * 2.0 - 1.0))


def test_refuses_where_a_difference_in_rounding_would_decide_what_passes():
    some = images().map(normalize).filter(lambda x: tf.cast(tf.reduce_sum(x), tf.int64) % 3 > 0)
    assert_refuses(RULE, some, "may turn a rounding difference into a larger one")
    text = images().map(normalize).batch(2).map(tf.strings.as_string)
    assert_refuses(RULE, text, "a larger one (AsString)")


def test_goes_on_where_only_what_was_exact_before_decides():
    shuffled = images().map(normalize).shuffle(5).batch(4).map(lambda x: tf.minimum(x, 1.0) * 2.0)
    assert [step.rule for step in apply(RULE, shuffled).steps] == [RULE]


def test_what_decides_by_computed_floats_is_not_compiled():
    def steps(image):
        return tf.floor(tf.cast(image, tf.float32) / 255.0 * 7.3 - 0.4) / 0.2

    assert_no_match(RULE, images().map(steps))


def standardize(image):
    scaled = tf.cast(image, tf.float32) / 255.0
    mean = tf.reduce_mean(scaled)
    return (scaled - mean) / tf.sqrt(tf.reduce_mean(scaled * scaled) - mean * mean + 1e-8)


def test_refuses_where_its_own_arithmetic_makes_of_rounding_a_larger_difference():
    assert_refuses(RULE, images().map(standardize), "its own Sqrt may turn a rounding difference into a larger one")
