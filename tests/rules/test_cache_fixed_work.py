import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.optimizer import rewrite
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import AlwaysFaster, Answers, apply, assert_no_match, assert_refuses, assert_rewrites, named

RULE = "cache_fixed_work"
IMAGES = np.random.default_rng(0).integers(0, 255, (10, 12, 14, 3), dtype=np.uint8)
JPEGS = tf.data.Dataset.from_tensor_slices([tf.io.encode_jpeg(image).numpy() for image in IMAGES])
FLIP = keras.layers.RandomFlip("horizontal", seed=1)


def decode(jpeg):
    return tf.image.resize(tf.io.decode_jpeg(jpeg, channels=3), (8, 8))


def decode_first(jpegs):
    return decode(jpegs[0])


def augment(jpeg):
    image = tf.cast(tf.cast(decode(jpeg), tf.uint8), tf.float32) / 127.5 - 1.0
    return tf.image.random_brightness(tf.image.random_flip_left_right(image), 0.2)


def seeded(jpeg):
    return decode(jpeg) + tf.random.uniform((), seed=3)


@pytest.mark.parametrize("keeps", Keeps)
def test_keeps_what_a_function_does_before_it_draws(keeps):
    expected = "tensor_slices | map(fixed part of seeded) | cache() | map(rest of seeded)"
    assert_rewrites(RULE, JPEGS.map(seeded), expected, keeps)


def test_keeps_the_fewest_bytes():
    done = apply(RULE, JPEGS.map(augment))
    (image,) = done.after.input.input.fn.output_spec
    assert (image.dtype, image.shape) == (tf.uint8, (8, 8, 3))


def test_decoding_is_kept_where_its_size_times_a_draw_is_asserted_to_be_one():
    def scaled(jpeg):
        image = tf.io.decode_jpeg(jpeg, channels=3)
        size = tf.cast(tf.cast(tf.shape(image)[:2], tf.float32) * tf.random.uniform((), 0.5, 2, seed=3), tf.int32)
        return tf.image.resize_with_crop_or_pad(tf.image.resize(image, size), 8, 8)

    expected = "tensor_slices | map(fixed part of scaled) | cache() | map(rest of scaled)"
    assert_rewrites(RULE, JPEGS.map(scaled), expected)


def test_augmentation_differs_in_every_epoch_and_for_every_element():
    one = tf.data.Dataset.from_tensors(tf.io.encode_jpeg(IMAGES[0]).numpy()).repeat(30)
    after = build(apply(RULE, one.map(augment)).after)
    first, second = ([element.numpy().tobytes() for element in after] for _ in range(2))
    assert len(set(first)) == len(set(second)) == 30
    assert not set(first) & set(second)


def test_maps_between_the_shuffle_and_the_last_work_go_before_the_cache_too():
    dataset = JPEGS.cache().map(lambda jpeg: tf.strings.join([jpeg])).shuffle(10, seed=1).repeat(2).map(decode)
    assert_rewrites(
        RULE,
        dataset.map(lambda x: x + tf.random.uniform((), seed=3)).batch(4),
        "tensor_slices | map(<lambda>) | map(decode) | cache() | shuffle(10, seed=1) | repeat(2) "
        "| map(<lambda>) | batch(4)",
    )


def test_an_order_that_was_drawn_for_good_is_kept():
    once = JPEGS.shuffle(10, reshuffle_each_iteration=False)
    expected = "opaque ShuffleDataset | skip(2) | map(decode) | cache() | shuffle(10, seed=1)"
    assert_rewrites(RULE, once.skip(2).shuffle(10, seed=1).map(decode), expected)
    lines = tf.data.TextLineDataset(__file__).shuffle(9, reshuffle_each_iteration=False).map(tf.strings.upper)
    (step,) = apply(RULE, lines).steps
    assert any("assumes the files stay as they are" in reason for reason in step.reasons)
    before = JPEGS.shuffle(10).shuffle(10, reshuffle_each_iteration=False)
    assert_refuses(RULE, before.map(decode), "shuffle(10) gives each repetition its own order")


@pytest.mark.parametrize("mixed", [JPEGS.shuffle(10, seed=1), JPEGS.shuffle(10).repeat(2)])
def test_refuses_where_a_cache_keeps_the_order_of_a_shuffle(mixed):
    dataset = mixed.cache().repeat(2).map(decode)
    assert_refuses(RULE, dataset, "gives each repetition its own order")


def test_what_a_cache_of_the_author_holds_is_the_same_whatever_gave_it():
    batches = JPEGS.shuffle(10, seed=1).cache().prefetch(1).batch(2)
    assert_rewrites(
        RULE,
        batches.map(decode_first),
        "tensor_slices | shuffle(10, seed=1) | cache() | prefetch(1) | batch(2) | map(decode_first) | cache()",
    )


@pytest.mark.parametrize("partly", [lambda made: made.take(5), lambda made: made.take_while(lambda jpeg: True)])
def test_refuses_what_a_cache_of_the_author_may_not_hold_since_it_is_read_in_part(partly):
    """It is never full, so every epoch draws another order, and other elements come first."""
    dataset = partly(JPEGS.shuffle(10).cache()).batch(2).map(decode_first)
    assert_refuses(RULE, dataset, "gives each repetition its own order")


def test_options_stand_in_nobodys_way():
    options = tf.data.Options()
    options.threading.private_threadpool_size = 2
    assert_rewrites(
        RULE,
        JPEGS.with_options(options).shuffle(10, seed=2).map(decode),
        "tensor_slices | map(decode) | cache() | options | shuffle(10, seed=2)",
    )


def test_a_map_that_draws_stays_where_it_is_and_nothing_after_it_is_cached():
    dataset = JPEGS.shuffle(10).map(lambda jpeg: (jpeg, tf.random.uniform(()))).map(lambda jpeg, _: decode(jpeg))
    assert_refuses(RULE, dataset, "so each epoch must run it again")


def test_where_a_map_draws_itself_that_is_said_before_what_its_input_does():
    drawn = JPEGS.shuffle(10).batch(2).map(lambda jpegs: decode_first(jpegs) + tf.random.uniform(()))
    reason = "<lambda> draws random numbers (RandomUniform), and before that shuffle(10) gives each repetition its own"
    assert_refuses(RULE, drawn, reason)


def test_the_cache_stands_before_shuffle_and_repeat_and_takes_the_place_of_another():
    dataset = JPEGS.cache().shuffle(10, seed=1).repeat(2).map(seeded).batch(4)
    assert_rewrites(
        RULE,
        dataset,
        "tensor_slices | map(fixed part of seeded) | cache() | shuffle(10, seed=1) | repeat(2) "
        "| map(rest of seeded) | batch(4)",
    )


def test_a_function_that_never_changes_is_cached_whole():
    expected = "tensor_slices | map(decode) | cache() | shuffle(5, seed=2) | batch(4)"
    assert_rewrites(RULE, JPEGS.shuffle(5, seed=2).map(decode).batch(4), expected)


def test_each_of_two_caches_is_told_with_its_own_size():
    zipped = tf.data.Dataset.zip((JPEGS.map(decode), tf.data.Dataset.range(10).map(lambda x: tf.sort(tf.fill([3], x)))))
    done = apply(RULE, zipped, answers=Answers(cache_bytes=2**20))
    first, second = (proof.because for step in done.steps for proof in step.proofs if "RAM budget" in proof.because)
    assert first.startswith("it needs 1 MiB (8 bytes for each element) of the RAM budget")
    assert second.startswith("it needs 1 MiB (8 bytes for each element, 2 MiB with the other caches) of the RAM")


def test_of_several_functions_the_last_fixed_one_is_cached_once():
    dataset = JPEGS.map(decode).map(lambda x: tf.image.resize(x, (6, 6))).map(lambda x: x + tf.random.uniform(()))
    done = apply(RULE, dataset)
    assert [type(node).__name__ for node in (done.after, done.after.input)] == ["Map", "Cache"]
    assert len(done.steps) == 1
    assert not done.refusals


def test_files_count_as_unchanged_but_not_where_the_sequence_is_promised(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(tf.io.encode_jpeg(IMAGES[0]).numpy())
    dataset = tf.data.Dataset.from_tensors(str(path)).map(lambda name: decode(tf.io.read_file(name)))
    assert apply(RULE, dataset).steps
    assert_refuses(RULE, dataset, "which may change between epochs", Keeps.SEQUENCE)


def test_the_work_runs_once_and_the_rest_in_every_epoch():
    decoded = []

    @autopipe.stateless
    def count(image):
        decoded.append(1)
        return image

    def noted(jpeg):
        total = tf.reduce_sum(tf.cast(decode(jpeg), tf.float32))
        return tf.ensure_shape(tf.numpy_function(count, [total], tf.float32), []) + tf.random.uniform(())

    after = build(apply(RULE, JPEGS.map(noted).batch(5)).after)
    decoded.clear()
    epochs = [[float(image) for batch in after for image in batch] for _epoch in range(3)]
    assert len(decoded) == len(epochs[0])
    assert len(set(map(tuple, epochs))) == 3


def test_a_keras_layer_is_cut_where_its_generator_is_drawn_from():
    def augmented(jpeg):
        return FLIP(decode(jpeg), training=True)

    dataset = JPEGS.map(augmented)
    after = build(apply(RULE, dataset).after)
    state = FLIP.generator.state
    state.assign([5, 0])
    before = [element.numpy().tobytes() for _ in range(2) for element in dataset]
    state.assign([5, 0])
    assert before == [element.numpy().tobytes() for _ in range(2) for element in after]


def test_refuses_what_does_not_fit():
    small = Answers(cache_bytes=2000, ram_budget=1000)
    assert_refuses(RULE, JPEGS.map(augment), "above the RAM budget", answers=small)


def test_refuses_what_costs_no_more_than_memory():
    cheap = Answers(caching=(1e-5, 8e-6))
    assert_refuses(RULE, JPEGS.map(augment), "10 us to make an element, 8 us to read it", answers=cheap)


def test_what_takes_as_long_as_a_call_is_worth_a_cache_only_where_no_batch_could_do_it():
    little = Answers(caching=(18e-6, 1e-6))
    assert any(isinstance(node, ir.Cache) for node in trees.walk(apply(RULE, JPEGS.map(decode), answers=little).after))
    dense = tf.data.Dataset.range(9).map(lambda x: tf.linalg.inv(tf.eye(3) + tf.cast(x, tf.float32)))
    assert_refuses(RULE, dense, "18 us to make an element, 1 us to read it", answers=little)
    batches = tf.data.Dataset.range(9).batch(3).map(lambda x: tf.strings.to_number(tf.strings.as_string(x)))
    assert_refuses(RULE, batches, "18 us to make an element, 1 us to read it", answers=little)


def test_refuses_what_is_not_the_same_in_every_epoch():
    dataset = JPEGS.map(lambda x: (x, tf.random.uniform(()))).map(lambda x, r: decode(x) + r)
    done = apply(RULE, dataset)
    assert done.after == done.before
    assert any("draws random numbers" in refusal.reason for refusal in done.refusals)


def test_refuses_where_errors_are_ignored():
    assert_refuses(RULE, JPEGS.map(augment).ignore_errors(), "ignore_errors()")


@pytest.mark.parametrize(
    "read",
    [
        lambda names: names.map(tf.io.read_file),
        lambda names: tf.data.TFRecordDataset(names),
        lambda names: names.interleave(tf.data.TFRecordDataset),
    ],
    ids=["a map", "a reader", "a reader for each"],
)
def test_refuses_to_keep_what_errors_left_of_files_in_one_epoch(read):
    kept = read(tf.data.Dataset.from_tensor_slices(["a", "b"])).ignore_errors().map(decode)
    done = apply(RULE, kept)
    assert done.after == done.before
    reason = "a file that cannot be read in one epoch only would be left out for good, by ignore_errors()"
    assert reason in {refusal.reason for refusal in done.refusals}


def test_what_errors_leave_of_what_reads_no_file_is_kept():
    read = JPEGS.map(lambda jpeg: tf.debugging.check_numerics(decode(jpeg), "not a number")).ignore_errors()
    done = apply(RULE, read.map(lambda image: tf.image.resize(image, (6, 6))))
    assert one_line(done.after) == "tensor_slices | map(<lambda>) | ignore_errors() | map(<lambda>) | cache()"


def test_refuses_where_the_element_that_fails_may_be_one_that_is_not_taken():
    assert_refuses(RULE, JPEGS.shuffle(9).map(augment).take(3), "on an element that take(3) downstream leaves out")


def test_does_not_match_where_nothing_comes_before_the_draw():
    assert_no_match(RULE, tf.data.Dataset.range(5).map(lambda x: tf.cast(x, tf.float32) + tf.random.uniform(())))
    assert_no_match(RULE, JPEGS.map(lambda x: tf.numpy_function(lambda y: y, [x], tf.string)))
    assert_no_match(RULE, JPEGS.map(decode).cache())


def test_says_what_runs_once_where_change_begins_and_what_an_element_takes():
    done = apply(RULE, JPEGS.map(augment).batch(2))
    account = " ".join(proof.because for proof in done.steps[0].proofs)
    assert re.search(r"DecodeJpeg \(test_cache_fixed_work.py:\d+\).* run once, not in every epoch", account)
    assert re.search(r"what differs begins with RandomUniform \(test_cache_fixed_work.py:\d+\)", account)
    assert "bytes for each element" in account


def test_refuses_work_that_waits_for_python_with_the_line_it_is_called_in():
    def load(name):
        jpeg = tf.ensure_shape(tf.py_function(lambda name: tf.io.read_file(name), [name], tf.string), ())
        return tf.io.decode_jpeg(jpeg)

    reason = "all work of load comes after EagerPyFunc (test_cache_fixed_work.py:"
    assert_refuses(RULE, JPEGS.map(load), reason)


@autopipe.stateless
def read(name):
    return name


def load(name):
    jpeg = tf.ensure_shape(tf.numpy_function(read, [name], tf.string), ())
    return decode(jpeg) + tf.random.uniform((), seed=3)


@autopipe.stateless
def jpegs():
    return iter(list(JPEGS.as_numpy_iterator()))


def test_code_that_is_declared_stateless_runs_once_too():
    done = assert_rewrites(
        RULE, JPEGS.map(load), "tensor_slices | map(fixed part of load) | cache() | map(rest of load)"
    )
    assert "PyFunc (test_cache_fixed_work.py:" in done.steps[0].proofs[0].because


def test_elements_of_a_generator_that_is_declared_stateless_are_cached():
    spec = tf.TensorSpec((), tf.string)
    generated = tf.data.Dataset.from_generator(jpegs, output_signature=spec)
    assert_rewrites(RULE, generated.map(decode), "generator | map(decode) | cache()", Keeps.SEQUENCE)

    undeclared = tf.data.Dataset.from_generator(lambda: jpegs(), output_signature=spec)
    assert_refuses(RULE, undeclared.map(decode), "the generator runs Python code (PyFunc), so each epoch must run it")


def test_elements_are_counted_where_the_next_stage_would_not_take_what_is_cached():
    labelled = JPEGS.map(lambda jpeg: {"image": augment(jpeg), "noise": tf.random.uniform(())})
    batches = labelled.padded_batch(4, padded_shapes={"image": [9, 9, 3], "noise": []})
    assert_refuses(RULE, batches.take(2), "take(2) may stop before its end")
    done = apply(RULE, batches.shuffle(3).repeat().take(3))
    assert any(isinstance(node, ir.Cache) for node in trees.walk(done.after))


def last_of(window):
    return window.reduce(tf.constant(0, tf.int64), lambda _, x: x)


def strings_of(window):
    return tf.strings.as_string(window.batch(3).get_single_element())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize("of_window", [last_of, strings_of])
def test_what_is_made_of_windows_is_kept(of_window, keeps):
    windows = tf.data.Dataset.range(20).window(3, shift=2, drop_remainder=True).map(of_window).shuffle(3, seed=1)
    done = apply(RULE, windows, keeps)
    name = of_window.__name__
    assert f"window(3, shift=2, drop_remainder=True) | map({name}) | cache() | shuffle" in one_line(done.after)
    assert compare(windows, build(done.after), Keeps.SEQUENCE, epochs=3) is None


def test_windows_of_a_shuffle_are_not_kept():
    windows = tf.data.Dataset.range(20).shuffle(9).window(3).map(last_of)
    assert_refuses(RULE, windows, "gives each repetition its own order")


def test_what_is_taken_of_a_map_is_cached_after_the_take():
    tree = extract(JPEGS.map(decode).take(6).batch(2))
    rules = [named("select_before_map"), named(RULE)]
    done = rewrite(tree, rules, keeps=Keeps.SEQUENCE, measurements=Answers())
    assert one_line(done.after) == "tensor_slices | take(6) | map(decode) | cache() | batch(2)"


def test_a_draw_that_is_not_used_is_no_error():
    def load(x):
        tf.random.normal([8])
        return tf.image.resize(tf.fill([64, 64, 3], tf.cast(x, tf.float32)), (32, 32))

    done = apply(RULE, tf.data.Dataset.range(8).map(load).batch(2), Keeps.TRAINING, AlwaysFaster())
    assert done.steps or done.refusals


@pytest.mark.parametrize("stage", ["flat_map", "interleave"])
def test_refuses_to_keep_what_errors_left_of_files_inside_a_function(stage):
    def opened(name):
        return tf.data.TFRecordDataset(name).ignore_errors()

    kept = getattr(tf.data.Dataset.from_tensor_slices(["a", "b"]), stage)(opened).map(
        lambda x: tf.strings.upper(x + "x")
    )
    done = apply("cache_fixed_work", kept)
    assert done.after == done.before
