"""What is made of the elements before, counters above all, hides nothing from the rules, and goes by its order."""

import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.extract import extract
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.planning.measuring.samples import take_sample
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import apply, assert_refuses, assert_rewrites

Dataset = tf.data.Dataset


def work(x):
    return tf.reduce_sum(tf.strings.length(tf.strings.as_string(tf.range(x + 500))))


def running_sum(state, x):
    return state + x, state


def small(x):
    return x < 7


def augmented(x, seed):
    return tf.cast(x, tf.float32) + tf.random.stateless_uniform((), seed)


def with_counters(dataset):
    """Return the pipeline of TensorFlow's tutorial on augmentation: each element with a seed that counts."""
    counter = Dataset.counter()
    return Dataset.zip((dataset, Dataset.zip((counter, counter)).map(lambda a, b: tf.stack([a, b]))))


def test_a_counter_that_is_zipped_is_the_same_in_every_epoch():
    dataset = with_counters(Dataset.range(20)).map(augmented).shuffle(9, seed=1).batch(4)
    done = apply("cache_fixed_work", dataset, Keeps.SEQUENCE)
    assert done.steps
    assert compare(dataset, autopipe.optimize(dataset, keeps="sequence"), Keeps.SEQUENCE, epochs=3) is None


def test_a_sample_of_what_is_zipped_with_a_counter_has_many_elements():
    tree = extract(with_counters(Dataset.range(20)).map(augmented))
    assert len(take_sample(tree, 12)) == 12


def test_reading_ahead_of_a_counter_is_seen_by_nobody():
    dataset = with_counters(Dataset.range(20)).map(augmented).batch(4)
    assert all(apply(rule, dataset).steps for rule in ("parallel_map", "prefetch_at_end"))


def test_work_behind_it_is_cached_and_no_order_before_it_is_freed():
    dataset = (
        Dataset.range(20).map(work).scan(tf.constant(0, tf.int64), lambda s, x: (s + 1, (s, x))).map(lambda s, x: x)
    )
    expected = "range(0, 20) | map(work) | cache() | scan(<lambda>) | map(<lambda>)"
    assert_rewrites("cache_fixed_work", dataset, expected)
    files = Dataset.range(3).interleave(lambda x: Dataset.range(x, x + 4), num_parallel_calls=2)
    summed = files.scan(tf.constant(0, tf.int64), running_sum).shuffle(9)
    assert not apply("free_order", summed).steps


@pytest.mark.parametrize("state", ["a function that draws", "a variable"])
def test_what_differs_from_epoch_to_epoch_is_not_kept(state):
    variable = tf.Variable(1, dtype=tf.int64)
    functions = {
        "a function that draws": lambda s, x: (s, x + tf.random.uniform((), 0, 9, tf.int64)),
        "a variable": lambda s, x: (s + variable, s),
    }
    dataset = Dataset.range(9).scan(tf.constant(0, tf.int64), functions[state]).map(work)
    assert_refuses("cache_fixed_work", dataset, "random" if "draws" in state else "variable")


def test_an_epoch_that_ends_early_fills_no_cache_before_that():
    ended = Dataset.range(20).map(work).take_while(lambda x: x < 10**6)
    assert_refuses("cache_fixed_work", ended, "take_while(<lambda>) may stop before its end")
    after = Dataset.range(20).take_while(small).map(work)
    assert_rewrites("cache_fixed_work", after, "range(0, 20) | take_while(small) | map(work) | cache()")


def test_what_a_folder_holds_is_read_once(tmp_path, monkeypatch):
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
    Dataset.range(30).save(str(tmp_path / "saved"))
    dataset = Dataset.load(str(tmp_path / "saved")).map(work)
    assert_rewrites("cache_fixed_work", dataset.batch(4), "load | map(work) | cache() | batch(4)", Keeps.ELEMENTS)
    assert_refuses("cache_fixed_work", dataset, "reads files that may change", Keeps.SEQUENCE)
    assert "cache_fixed_work" in autopipe.optimize(dataset.batch(4)).plan.rules
    mixed = Dataset.load(str(tmp_path / "saved"), reader_func=lambda each: each.shuffle(9).flat_map(lambda x: x))
    assert_refuses("cache_fixed_work", mixed.map(work), "ShuffleDataset")
