import numpy as np
import tensorflow as tf

from autopipe.optimizer import rewrite
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules import Keeps, catalogue
from sides import Answers, assert_no_match, assert_refuses, assert_rewrites

RULE = "cache_fewer_bytes"
IMAGES = np.random.default_rng(0).integers(0, 255, (10, 32, 32, 3), dtype=np.uint8)
JPEGS = tf.data.Dataset.from_tensor_slices([tf.io.encode_jpeg(image).numpy() for image in IMAGES])
ROOM_FOR_BYTES = {"ram_budget": 50_000}


class Sizes(Answers):
    """Knows what elements of these images take, as bytes and as floats."""

    def cache_bytes(self, node):
        types = node.fn.element_types
        return 10 * 32 * 32 * 3 * types[0].size


class NothingBeside(SampleMeasurements):
    """Measures, and counts for nothing what that takes: more than these few small images."""

    def bytes_beside_caches(self, pipeline):
        return 0


def decode(jpeg):
    image = tf.ensure_shape(tf.io.decode_jpeg(jpeg, channels=3), (32, 32, 3))
    return tf.cast(image, tf.float32) * 2.0 - 255.0


def test_a_cache_that_is_above_the_budget_keeps_bytes_and_not_floats():
    dataset = JPEGS.map(decode, num_parallel_calls=2).cache().shuffle(10, seed=1).batch(4)
    expected = (
        "tensor_slices | map(first part of decode, calls=2) | cache() | map(rest of decode, calls=2) "
        "| shuffle(10, seed=1) | batch(4)"
    )
    done = assert_rewrites(RULE, dataset, expected, Keeps.SEQUENCE, answers=Sizes(**ROOM_FOR_BYTES))
    assert done.steps[0].proofs[1].because.startswith("as written it needs 120 KiB (8 bytes for each element)")


def test_a_cache_that_fits_is_left_alone_without_a_word():
    assert_no_match(RULE, JPEGS.map(decode).cache())


def test_refuses_where_bytes_are_too_many_as_well():
    assert_refuses(RULE, JPEGS.map(decode).cache(), "above the RAM budget", answers=Sizes(ram_budget=10))


def test_refuses_a_cache_on_disk(tmp_path):
    dataset = JPEGS.map(decode).cache(str(tmp_path / "cache"))
    assert_refuses(RULE, dataset, "file", answers=Sizes(**ROOM_FOR_BYTES))


def test_does_not_match_a_frozen_augmentation_or_what_gives_its_fewest_bytes_already():
    assert_no_match(RULE, JPEGS.map(lambda x: decode(x) + tf.random.uniform(())).cache())
    assert_no_match(RULE, JPEGS.map(tf.io.decode_jpeg).cache())
    assert_no_match(RULE, tf.data.Dataset.range(9).map(lambda x: tf.fill([9], x)).cache())


def test_with_all_rules_a_cache_of_floats_that_does_not_fit_comes_to_rest_as_bytes():
    measured = NothingBeside(ram_budget=60_000)
    done = rewrite(extract(JPEGS.map(decode).cache()), catalogue(), keeps=Keeps.SEQUENCE, measurements=measured)
    assert "first part of decode" in one_line(done.after)
    assert one_line(done.after).index("cache()") < one_line(done.after).index("rest of decode")
    assert [step.rule for step in done.steps].count(RULE) == 1
