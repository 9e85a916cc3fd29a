"""What a cache would take, told from part of the elements, is what it takes."""

import pytest
import tensorflow as tf

from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.planning.costs.cache_sizes import cache_sizes
from autopipe.planning.costs.profiling import Looks, profile_of, profile_tree
from autopipe.planning.costs.stages import counters_in, model_of
from autopipe.planning.measuring.samples import held_beside

Dataset = tf.data.Dataset
NUMBERS = Dataset.range(1500)
# What TensorFlow counts for a text besides its letters.
TEXT = 24


def fixed(x):
    return tf.fill([50, 3], tf.cast(x, tf.float32)), tf.cast(x, tf.uint8)


def varied(x):
    return tf.fill([(x * 7919) % 211], x)


def lines(x):
    return tf.strings.join(["line ", tf.repeat(tf.strings.as_string(x), 1 + (x * 7919) % 5)])


def bytes_of(dataset):
    """Return the bytes of all elements, by reading them."""
    total = 0
    for element in dataset:
        for leaf in tf.nest.flatten(element):
            values = leaf.numpy()
            texts = values.reshape(-1).tolist() if leaf.dtype == tf.string else None
            total += values.nbytes if texts is None else sum(TEXT + len(text) for text in texts)
    return total


def held_by_a_cache(dataset):
    """Return the bytes that TensorFlow says it holds after a whole epoch."""
    tree = extract(dataset.cache())
    iterator = iter(build(tree))
    for _ in range(len(dataset)):
        next(iterator)
    return counters_in(model_of(iterator), tree)[tree].buffered_bytes


def size_after_last(dataset):
    """Return the size that is told of a whole epoch after a fifth of it."""
    tree = extract(dataset)
    options = tf.data.Options()
    options.autotune.enabled = True
    iterator = iter(build(tree).with_options(options))
    looks = Looks(tree, lambda: iterator)
    for _ in range(len(dataset) // 5):
        next(iterator)
        looks.count()
    looks.stop()
    return cache_sizes(tree, profile_of(tree, [looks.epoch()]))[-1]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("dataset", "within"),
    [
        (NUMBERS.map(fixed), 0.1),
        (NUMBERS.map(fixed).batch(16), 0.1),
        (NUMBERS.map(varied), 0.2),
        (NUMBERS.map(varied).padded_batch(16), 0.2),
        (NUMBERS.map(lines), 0.2),
    ],
    ids=["fixed", "batches", "varied", "padded", "texts"],
)
def test_the_size_is_forecast_from_part_of_the_elements(dataset, within):
    forecast = size_after_last(dataset)
    mean = bytes_of(dataset) / forecast.elements
    beside = held_beside(dataset.element_spec, mean, differ=forecast.error > 0)
    of_tensors = forecast.bytes - forecast.elements * beside
    assert of_tensors == pytest.approx(bytes_of(dataset), rel=within)
    assert of_tensors == pytest.approx(held_by_a_cache(dataset), rel=within)


def test_the_error_is_none_for_fixed_shapes_and_some_for_others():
    assert size_after_last(NUMBERS.map(fixed)).error == 0
    assert size_after_last(NUMBERS.map(varied)).error > 0


def places(dataset):
    tree = extract(dataset)
    return [each.stage for each in cache_sizes(tree, profile_tree(tree, 0.1))]


def test_every_place_that_gives_the_same_each_epoch_is_told_sources_first():
    dataset = Dataset.range(90).map(fixed).shuffle(9).map(lambda *parts: parts[0]).batch(2)
    assert places(dataset) == ["range(0, 90)", "map(fixed)"]
    drawn = Dataset.range(90).map(lambda x: tf.random.uniform([])).batch(2)
    assert places(drawn) == ["range(0, 90)"]


def test_what_has_no_end_or_no_known_number_is_left_out():
    assert places(Dataset.range(90).repeat().batch(2)) == ["range(0, 90)"]
    unknown = Dataset.range(90).padded_batch(2).unbatch().batch(3)
    assert places(unknown) == ["range(0, 90)", "padded_batch(2)"]


def test_a_map_that_is_one_with_its_batch_is_told_as_batches():
    assert places(Dataset.range(90).map(lambda x: x).batch(9)) == ["range(0, 90)", "batch(9)"]


def test_a_filter_has_at_most_all_elements():
    tree = extract(Dataset.range(90).filter(lambda x: x % 2 == 0))
    assert cache_sizes(tree, profile_tree(tree, 0.1))[-1].elements == 90
