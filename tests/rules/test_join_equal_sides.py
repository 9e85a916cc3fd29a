"""Sides of a zip that read equal elements become one pipeline."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.optimizer import rewrite
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.signature import signature
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import AlwaysFaster, Answers, apply, assert_no_match, assert_refuses, assert_rewrites, named

RULE = "join_equal_sides"
Dataset = tf.data.Dataset
IMAGES = np.random.default_rng(0).normal(size=(24, 6, 6, 3)).astype(np.float32)


def square(x):
    return x * x


def negative(x):
    return -x


def drawn(x):
    return x + tf.random.uniform([])


def numbers(count=24):
    return Dataset.range(count)


def views(first, second, **settings):
    """Two pipelines of the same images, each written from its array on, as guides for contrastive learning do."""
    sides = []
    for fn in (first, second):
        images = Dataset.from_tensor_slices(IMAGES).shuffle(24, seed=3)
        sides.append(images.map(fn, **settings).batch(4).prefetch(2))
    return Dataset.zip(tuple(sides))


@pytest.mark.parametrize("keeps", Keeps)
def test_maps_of_one_range_become_one(keeps):
    dataset = Dataset.zip((numbers().map(square), numbers().map(negative)))
    assert_rewrites(RULE, dataset, "range(0, 24) | map(square and negative)", keeps)


@pytest.mark.parametrize("keeps", Keeps)
def test_two_views_of_shuffled_images_are_batched_at_once(keeps):
    expected = "tensor_slices | shuffle(24, seed=3) | map(square and negative) | batch(4) | prefetch(2)"
    assert_rewrites(RULE, views(square, negative), expected, keeps)


def test_the_structure_of_the_zip_is_kept():
    parts = {"b": numbers().map(square), "a": (numbers(), numbers().map(lambda x: {"x": x, "y": (negative(x), x)}))}
    dataset = Dataset.zip(parts)
    done = assert_rewrites(RULE, dataset, "range(0, 24) | map(<lambda> and square)", Keeps.SEQUENCE)
    assert build(done.after).element_spec == dataset.element_spec


def test_maps_after_a_batch_get_the_batches_of_their_side():
    sides = (numbers().map(square).batch(5).map(negative), numbers().batch(5).map(square))
    expected = "range(0, 24) | map(square) | batch(5) | map(negative and square)"
    assert_rewrites(RULE, Dataset.zip(sides), expected, Keeps.SEQUENCE)


def test_what_moves_elements_alike_on_all_sides_moves_both_at_once():
    def side(fn):
        return numbers().map(fn).skip(2).shard(2, 1).repeat(2).shuffle(8, seed=5).take(9).prefetch(1)

    expected = (
        "range(0, 24) | map(square and negative) | skip(2) | shard(2, 1) | repeat(2) | shuffle(8, seed=5) | take(9)"
    )
    done = assert_rewrites(RULE, Dataset.zip((side(square), side(negative))), f"{expected} | prefetch(1)")
    assert done.steps[0].keeps is Keeps.SEQUENCE


def test_options_of_each_side_stay():
    options = tf.data.Options()
    options.experimental_slack = True

    def side(fn):
        return numbers().map(fn).batch(4).prefetch(2).with_options(options)

    done = assert_rewrites(
        RULE,
        Dataset.zip((side(square), side(negative))),
        "range(0, 24) | map(square and negative) | batch(4) | options",
    )
    assert build(done.after).options().experimental_slack


def test_what_all_sides_do_before_they_draw_runs_once():
    def view(x):
        return tf.sin(tf.cast(x, tf.float32)) + tf.random.uniform([])

    done = apply(RULE, Dataset.zip((numbers().map(view), numbers().map(view))))
    kinds = [op.type for op in done.after.fn.concrete.graph.get_operations()]
    assert (kinds.count("Sin"), kinds.count("RandomUniform")) == (1, 2)
    reasons = done.steps[0].reasons
    assert sum("view draws random numbers (RandomUniform), once for each element" in each for each in reasons) == 1
    assert any("all sides have in common is shared: Sin (test_join_equal_sides.py:" in each for each in reasons)
    first, second = zip(*build(done.after).as_numpy_iterator(), strict=True)
    assert not np.equal(first, second).any()


def test_a_cache_holds_what_both_views_need_once():
    def view(image):
        return tf.image.random_flip_left_right(tf.image.resize(tf.sin(image), (9, 9)))

    rules = [named(name) for name in (RULE, "cache_fixed_work")]
    done = rewrite(extract(views(view, view)), rules, keeps=Keeps.TRAINING, measurements=AlwaysFaster())
    (cached,) = [node for node in trees.walk(done.after) if isinstance(node, ir.Cache)]
    assert signature(cached).element_bytes == 9 * 9 * 3 * 4


def test_a_dataset_that_both_sides_read_may_have_maps_of_its_own():
    loaded = numbers().map(square)
    dataset = Dataset.zip((loaded.map(negative), loaded.map(lambda x: x + 1), loaded))
    done = assert_rewrites(RULE, dataset, "range(0, 24) | map(square and negative and <lambda>)", Keeps.SEQUENCE)
    assert [op.type for op in done.after.fn.concrete.graph.get_operations()].count("Mul") == 1


def test_each_side_draws_for_itself_what_the_dataset_that_both_read_draws():
    loaded = numbers().map(lambda x: tf.random.uniform([]))
    done = apply(RULE, Dataset.zip((loaded.map(negative), loaded.map(square))))
    first, second = zip(*build(done.after).as_numpy_iterator(), strict=True)
    assert not np.isclose(np.square(first), second).any()


def test_draws_from_a_seed_are_the_same():
    def seeded(x):
        return tf.cast(x, tf.float32) + tf.random.uniform([], seed=7)

    def dataset():
        return Dataset.zip((numbers().map(seeded), numbers().map(lambda x: tf.random.uniform([], seed=9))))

    joined = build(apply(RULE, dataset()).after)
    assert compare(dataset(), joined, Keeps.SEQUENCE) is None


def test_draws_of_one_generator_come_in_the_same_turn():
    def dataset(generator):
        return Dataset.zip(
            (numbers().map(lambda x: generator.uniform([])), numbers().map(lambda x: generator.normal([])))
        )

    first, second = (tf.random.Generator.from_seed(1) for _ in range(2))
    assert compare(dataset(first), build(apply(RULE, dataset(second)).after), Keeps.SEQUENCE) is None


def test_parallel_maps_stay_parallel():
    dataset = views(square, negative, num_parallel_calls=3)
    expected = "tensor_slices | shuffle(24, seed=3) | map(square and negative, calls=3) | batch(4) | prefetch(2)"
    assert_rewrites(RULE, dataset, expected)


def test_a_model_sees_two_views_of_each_image():
    inputs = [keras.Input((6, 6, 3)) for _ in range(2)]
    same = keras.layers.Lambda(lambda pair: keras.ops.mean(keras.ops.abs(pair[0] + pair[1])))(inputs)
    model = keras.Model(inputs, same)
    model.compile(loss=lambda y, p: p)
    dataset = autopipe.optimize(views(square, lambda x: -square(x)).map(lambda *pair: (pair, 0.0)))
    assert RULE in dataset.plan.rules
    assert [model.evaluate(dataset, verbose=0) for _ in range(2)] == [0.0, 0.0]


@pytest.mark.parametrize(
    "dataset",
    [
        Dataset.zip((numbers(), numbers())),
        Dataset.zip((numbers().map(square), numbers(23).map(negative))),
        Dataset.zip((numbers().map(square), numbers().filter(lambda x: x > 1))),
        Dataset.zip((numbers().map(square).batch(2), numbers().map(negative).batch(3))),
        Dataset.zip((numbers().map(square).batch(2), numbers().map(negative))),
        Dataset.zip((numbers().map(square, 2), numbers().map(negative, 3))),
        Dataset.zip((numbers().map(square, 2), numbers().map(negative))),
        Dataset.zip((numbers().map(square, 2, deterministic=False), numbers().map(negative, 2))),
        Dataset.zip((numbers().map(square).shuffle(4), numbers().map(negative).shuffle(4))),
        Dataset.zip((numbers().map(square).shuffle(4, seed=1), numbers().map(negative).shuffle(4, seed=2))),
        Dataset.zip((numbers().map(square).cache(), numbers().map(negative).cache())),
        Dataset.zip((numbers().map(square),)),
        Dataset.zip((numbers().map(lambda x: tf.ragged.constant([[1], [2, 3]])), numbers().map(square))),
        Dataset.zip((numbers().map(lambda x: tf.sparse.from_dense([x])).batch(2), numbers().batch(2).map(square))),
        numbers().map(square),
    ],
)
def test_leaves_sides_that_differ(dataset):
    assert_no_match(RULE, dataset)


def test_refuses_sides_of_which_each_has_its_own_order():
    mixed = numbers().shuffle(24)
    one_each = Dataset.zip((numbers().shuffle(24).map(square), numbers().shuffle(24).map(negative)))
    for dataset in (one_each, Dataset.zip((mixed.map(square), mixed.map(negative)))):
        assert_refuses(RULE, dataset, "shuffle(24) gives each side its own order")
    seeded = numbers().shuffle(24, seed=4)
    assert_refuses(RULE, Dataset.zip((seeded.map(square), seeded.map(negative))), "autopipe cannot tell")


def test_leaves_an_optimized_dataset_of_which_both_sides_draw_orders_in_turn():
    seeded = autopipe.optimize(numbers().map(square).shuffle(24, seed=4), rules=[])
    dataset = Dataset.zip((seeded.map(square), seeded.map(negative)))
    assert_no_match(RULE, dataset)


def test_refuses_what_both_sides_read_if_it_may_be_read_differently():
    python = numbers().map(lambda x: tf.numpy_function(lambda y: y, [x], tf.int64)).batch(2).unbatch()
    assert_refuses(RULE, Dataset.zip((python.map(square), python.map(negative))), "runs Python code")
    free = numbers().interleave(lambda x: numbers(3), 2, num_parallel_calls=2, deterministic=False)
    assert_refuses(RULE, Dataset.zip((free.map(square), free.map(negative))), "frees the order")
    options = tf.data.Options()
    options.deterministic = False
    kept = numbers().interleave(lambda x: numbers(3), 2, num_parallel_calls=2)
    dataset = Dataset.zip((kept.map(square), kept.map(negative))).with_options(options)
    assert_refuses(RULE, dataset, "options.deterministic=False may free the order of interleave")


def test_refuses_functions_that_leave_traces():
    count = tf.Variable(0)
    counted = numbers().map(lambda x: count.assign_add(1))
    assert_refuses(RULE, Dataset.zip((counted, numbers())), "keeps state")
    python = numbers().map(lambda x: tf.numpy_function(lambda y: y, [x], tf.int64))
    assert_refuses(RULE, Dataset.zip((python, numbers())), "runs Python code")


def test_refuses_under_ignore_errors():
    failing = numbers().map(lambda x: 6 // x)
    assert_refuses(RULE, Dataset.zip((failing, numbers().map(square))).ignore_errors(), "would drop them too")


def test_refuses_under_a_legacy_interleave():
    pairs = Dataset.zip((numbers().map(square).batch(3), numbers().map(negative).batch(3)))
    read = tf.data.experimental.parallel_interleave(lambda *pair: Dataset.from_tensors(pair), 1)
    assert_refuses(RULE, pairs.apply(read), "takes an error of a zip, and no other error, for the end")


def test_rounding_must_be_unseen_where_shared_sums_go_on():
    def summed(more):
        return lambda x: x + 0.1 + 0.2 + more

    dataset = views(summed(0.3), summed(0.4))
    assert_refuses(RULE, dataset, "shuffle(24, seed=3) has a seed")
    sides = (Dataset.from_tensor_slices(IMAGES).map(summed(more)) for more in (0.3, 0.4))
    done = assert_rewrites(RULE, Dataset.zip(tuple(sides)), "tensor_slices | map(2 times <lambda>)", Keeps.ELEMENTS)
    assert done.steps[0].keeps is Keeps.ELEMENTS


def test_refuses_to_lose_an_error_in_what_the_next_map_ignores_where_the_sequence_is_promised():
    def dataset(then):
        return Dataset.zip((numbers().map(lambda x: (x, 6 // (x - 5))).map(then), numbers().map(square)))

    ignored = dataset(lambda x, quotient: x)
    assert_refuses(RULE, ignored, "what is no longer computed cannot", Keeps.SEQUENCE)
    assert [step.keeps for step in apply(RULE, ignored).steps] == [Keeps.ELEMENTS]
    assert apply(RULE, dataset(lambda x, quotient: quotient), Keeps.SEQUENCE).steps


def test_an_error_ends_the_epoch_at_the_same_element():
    dataset = Dataset.zip((numbers().map(lambda x: 6 // (x - 5)), numbers().map(square)))
    joined = build(apply(RULE, dataset, answers=Answers()).after)
    for each in (dataset, joined):
        seen = []
        with pytest.raises(tf.errors.InvalidArgumentError):
            for _, value in each:
                seen.append(int(value))
        assert seen == [0, 1, 4, 9, 16]


def of_one_generator(stage):
    generator = tf.random.Generator.from_seed(1)

    def side():
        return stage(tf.data.Dataset.range(8).map(lambda x: generator.uniform([])))

    return tf.data.Dataset.zip((side(), side()))


def test_batches_draw_all_of_a_side_at_once_so_that_draws_of_one_generator_would_be_others():
    pairs = of_one_generator(lambda drawn: drawn.batch(4))
    assert_refuses(RULE, pairs, "draw from generators, for all elements of a side at once", Keeps.SEQUENCE)
    assert apply(RULE, of_one_generator(lambda drawn: drawn.batch(4)), Keeps.TRAINING).steps
    assert apply(RULE, of_one_generator(lambda drawn: drawn.prefetch(1)), Keeps.SEQUENCE).steps
