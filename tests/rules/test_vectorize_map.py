import pytest
import tensorflow as tf

from autopipe.pipeline.text import one_line
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules import Keeps
from sides import AlwaysFaster, Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "vectorize_map"


def numbers(n=50):
    return tf.data.Dataset.range(n)


def double(x):
    return x * 2


def divide(x):
    return 100 // (x + 1)


def wave(x):
    return {"sin": tf.sin(tf.cast(x, tf.float32)), "x": (x, tf.fill([3], x))}


def to_float(x):
    return tf.cast(x, tf.float32)


def example(words):
    numbers = tf.train.Int64List(value=words)
    features = tf.train.Features(feature={"words": tf.train.Feature(int64_list=numbers)})
    return tf.train.Example(features=features).SerializeToString()


@pytest.mark.parametrize("keeps", Keeps)
def test_batches_first_and_keeps_every_bit_of_simple_arithmetic(keeps):
    dataset = numbers().map(double).batch(8)
    assert_rewrites(RULE, dataset, "range(0, 50) | batch(8) | map(vectorized double)", keeps)


def test_keeps_determinism_and_drop_remainder_and_leaves_the_calls_on_batches_to_autotune():
    dataset = numbers().map(double, num_parallel_calls=2, deterministic=True).batch(8, drop_remainder=True)
    expected = (
        "range(0, 50) | batch(8, drop_remainder=True) | map(vectorized double, calls=AUTOTUNE, deterministic=True)"
    )
    assert_rewrites(RULE, dataset, expected, Keeps.SEQUENCE)


@pytest.mark.parametrize(
    "written",
    [
        numbers().map(divide).batch(8),
        numbers().map(divide).batch(10, drop_remainder=True),
        numbers().repeat().map(divide).batch(8, drop_remainder=True),
    ],
    ids=["all", "whole ones that hold all", "without end"],
)
def test_where_no_element_is_left_over_an_error_in_it_surfaces(written):
    steps = apply(RULE, written, Keeps.SEQUENCE, AlwaysFaster()).steps
    assert [step.keeps for step in steps] == [Keeps.SEQUENCE]
    assert any("still surfaces" in because for because in steps[0].reasons)


def test_an_element_that_is_left_over_may_fail_no_more_unless_the_sequence_is_kept():
    written = numbers(50).map(divide).batch(8, drop_remainder=True)
    assert_refuses(RULE, written, "what is no longer computed cannot", keeps=Keeps.SEQUENCE)
    (step,) = apply(RULE, written, Keeps.TRAINING, AlwaysFaster()).steps
    assert step.keeps is Keeps.ELEMENTS
    assert any("what is left out can no longer fail" in because for because in step.reasons)


def test_vectorizes_nested_structures_up_to_rounding():
    dataset = numbers().map(wave).batch(8)
    done = assert_rewrites(RULE, dataset, "range(0, 50) | batch(8) | map(vectorized wave)")
    assert done.steps[0].keeps is Keeps.ELEMENTS


def test_vectorizes_a_chain_of_maps():
    dataset = numbers().map(double).map(wave).batch(8)
    assert_rewrites(RULE, dataset, "range(0, 50) | batch(8) | map(vectorized double) | map(vectorized wave)")


def test_refuses_rounding_where_the_sequence_is_promised():
    assert_refuses(RULE, numbers().map(wave).batch(8), "since floats may round differently in a batch", Keeps.SEQUENCE)


def exponent_as_a_number(x):
    return tf.cast(tf.exp(tf.cast(x, tf.float32) / 9.0) * 10_000.0, tf.int64)


def brightened(x):
    return tf.cast(tf.fill([3], tf.cast(x, tf.float32)) * 25.5, tf.uint8)


def clipped_too_far(x):
    return tf.cast(tf.clip_by_value(tf.cast(x, tf.float32) * 25.5, 0.0, 1000.0), tf.uint8)


def clipped_by_the_element(x):
    return tf.cast(tf.clip_by_value(tf.cast(x, tf.float32) * 25.5, 0.0, tf.cast(x * 9, tf.float32)), tf.uint8)


def clipped_but_for_no_number(x):
    return tf.saturate_cast(tf.cast(x, tf.float32) / 0.0, tf.int8)


@pytest.mark.parametrize(
    "function",
    [exponent_as_a_number, brightened, clipped_too_far, clipped_by_the_element, clipped_but_for_no_number],
)
@pytest.mark.parametrize("keeps", [Keeps.TRAINING, Keeps.ELEMENTS])
def test_refuses_what_makes_of_other_last_bits_or_of_an_overflow_another_number(function, keeps):
    assert_refuses(RULE, numbers().map(function).batch(8), "its own Cast may turn", keeps)


@pytest.mark.parametrize(
    ("keeps", "reason"),
    [(Keeps.SEQUENCE, "since floats may round differently in a batch"), (Keeps.ELEMENTS, "its own Cast may turn")],
)
def test_refuses_to_make_small_whole_numbers_of_complex_ones_that_overflow(keeps, reason):
    spectrum = tf.data.Dataset.from_tensor_slices(tf.complex(tf.range(0.0, 500.0, 99), 1.0))
    assert_refuses(RULE, spectrum.map(lambda z: tf.cast(z, tf.uint8)).batch(4), reason, keeps)


@pytest.mark.parametrize("clipped", [tf.saturate_cast, lambda x, to: tf.cast(tf.clip_by_value(x, 0, 255), to)])
def test_numbers_that_are_clipped_first_may_be_cast(clipped):
    dataset = numbers().map(lambda x: clipped(tf.cast(x, tf.float32) * 25.5, tf.uint8)).batch(8)
    assert_rewrites(RULE, dataset, "range(0, 50) | batch(8) | map(vectorized <lambda>)", Keeps.ELEMENTS)


def test_refuses_where_it_is_not_faster():
    slower = Answers(speed=(1.2, 0.9, 1.4))
    reason = "measured 1.20x (0.90-1.40) the speed on your elements; at least 1.05x is needed, and a lower end above 1x"
    assert_refuses(RULE, numbers().map(double).batch(8), reason, answers=slower)


def test_refuses_randomness_since_a_batch_would_share_one_draw():
    dataset = numbers().map(lambda x: tf.random.uniform(())).batch(8)
    assert_refuses(RULE, dataset, "draws random numbers (RandomUniform), which in a batch may not happen")


def test_refuses_elements_of_changing_shape():
    assert_refuses(RULE, numbers().map(lambda x: tf.fill([x % 3], x)[:0]).batch(8), "tensors of shape")


def test_refuses_ragged_elements():
    dataset = numbers().map(lambda x: tf.RaggedTensor.from_row_lengths(tf.range(x), [x])).batch(8)
    assert_refuses(RULE, dataset, "gives a RaggedTensor, which is not a plain tensor")


def test_parses_ragged_features_by_the_batch():
    examples = [example(range(n)) for n in (2, 0, 3, 1)]
    features = {"words": tf.io.RaggedFeature(tf.int64)}
    dataset = tf.data.Dataset.from_tensor_slices(examples).map(
        lambda one: tf.io.parse_single_example(one, features)["words"], num_parallel_calls=2
    )
    expected = "tensor_slices | batch(3) | map(vectorized <lambda> then to ragged, calls=AUTOTUNE)"
    assert_rewrites(RULE, dataset.ragged_batch(3), expected, Keeps.SEQUENCE)


def test_refuses_a_ragged_batch_of_a_part_of_what_was_parsed():
    features = {"words": tf.io.RaggedFeature(tf.int64)}
    dataset = tf.data.Dataset.from_tensor_slices([example(range(n)) for n in (2, 0, 3, 1)]).map(
        lambda one: tf.io.parse_single_example(one, features)["words"][:1]
    )
    assert_refuses(RULE, dataset.ragged_batch(3), "gives a RaggedTensor")


def test_refuses_a_ragged_batch_of_what_was_not_parsed():
    assert_refuses(RULE, numbers().map(lambda x: tf.range(x % 3)).ragged_batch(8), "gives a RaggedTensor")


def test_refuses_an_op_without_a_batched_form():
    dataset = tf.data.Dataset.from_tensor_slices(["Ab", "c"]).map(lambda x: tf.io.decode_raw(x, tf.uint8)[0]).batch(2)
    assert_refuses(RULE, dataset, "DecodeRaw")


def test_does_not_match_a_synchronous_map():
    assert_no_match(RULE, numbers().map(double, synchronous=True).batch(8))


def test_refuses_batches_that_are_batched_again_since_the_last_may_be_smaller():
    assert_refuses(
        RULE, numbers(9).map(double).batch(2).batch(3, drop_remainder=True), "fails on elements of different shapes"
    )
    whole = numbers(9).map(double).batch(2, drop_remainder=True).batch(3, drop_remainder=True)
    expected = "range(0, 9) | batch(2, drop_remainder=True) | batch(3, drop_remainder=True)"
    assert_rewrites(RULE, whole, f"{expected} | map(vectorized vectorized double)")


def bytes_by_the_batch(node):
    return 5 * 2**20 if "batch" in one_line(node) else 8.0


@pytest.mark.parametrize(("speed", "refused"), [(1.2, True), (1.4, False)])
def test_large_batches_must_be_clearly_faster(speed, refused):
    answers = Answers(speed=(speed, speed - 0.1, speed + 0.1), element_bytes=bytes_by_the_batch)
    done = apply(RULE, tf.data.Dataset.range(8).map(lambda x: x * 2).batch(4), answers=answers)
    assert bool(done.steps) is not refused
    assert not refused or "outgrows the cache of a core" in done.refusals[0].reason


def test_refuses_results_so_large_that_calls_cost_little_beside_the_work():
    images = tf.data.Dataset.from_tensors(tf.zeros((192, 192, 3), tf.uint8)).repeat(8).map(to_float).batch(4)
    assert_refuses(RULE, images, "with results of 432 KiB, calls cost little", answers=SampleMeasurements())
    smaller = tf.data.Dataset.from_tensors(tf.zeros((96, 96, 3), tf.uint8)).repeat(8).map(to_float).batch(4)
    assert apply(RULE, smaller, answers=AlwaysFaster()).steps
