"""An optimized dataset is one as any other, whose knobs can be set, and tried, and which holds nothing for ever."""

import gc
import weakref

import keras
import pytest
import tensorflow as tf
from disposing import wait_for_disposal
from retuning import flat, listening, numbers

import autopipe
from autopipe.errors import KnobError

pytestmark = pytest.mark.usefixtures("as_fast")

Dataset = tf.data.Dataset


def add_one(x):
    return x + 1


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("stages", [lambda d: d, lambda d: d.cache().shuffle(6)], ids=["plain", "cached"])
def test_nothing_is_held_when_the_dataset_is_gone(stages):
    """What caches hold is freed at once, not when Python's collector finds a cycle."""
    dataset = autopipe.optimize(stages(Dataset.range(6).map(add_one)))
    for _ in range(3):
        list(dataset)
    dataset.retune({"prefetch.buffer_size": 3})
    dataset.offer(dataset.start_early())
    gone = weakref.ref(dataset)
    del dataset
    wait_for_disposal()
    assert gone() is None


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"prefetch.size": 3}, "A knob must be one of"),
        ({"prefetch.buffer_size": 0}, "must be a whole number >= 1"),
        ({"prefetch.buffer_size": 2.5}, "but got 2.5"),
        ({"prefetch.buffer_size": True}, "but got True"),
        ({"thread_pool.size": -1}, "or 0 to leave it to TensorFlow"),
    ],
)
def test_a_wrong_knob_is_named_and_nothing_changes(knobs, words):
    dataset = autopipe.optimize(Dataset.range(6))
    before = dataset.knobs
    with pytest.raises(KnobError, match=words):
        dataset.retune({"thread_pool.size": 2, **knobs})
    assert dataset.knobs == before


def test_it_is_a_dataset_with_the_options_and_form_of_the_original():
    options = tf.data.Options()
    options.deterministic = False
    original = Dataset.range(10).map(add_one).batch(3).with_options(options)
    dataset = autopipe.optimize(original)

    assert isinstance(dataset, Dataset)
    assert dataset.original is original
    assert dataset.element_spec == original.element_spec
    assert dataset.cardinality() == 4
    assert dataset.options().deterministic is False
    assert sorted(flat(dataset.unbatch())) == list(range(1, 11))


def test_what_others_have_put_on_the_original_is_found_on_it_too(tmp_path):
    for name in ("cat", "dog"):
        image = tmp_path / name / f"{name}.png"
        image.parent.mkdir()
        image.write_bytes(tf.io.encode_png(tf.zeros((4, 4, 3), tf.uint8)).numpy())
    written = keras.utils.image_dataset_from_directory(tmp_path, image_size=(4, 4), verbose=False)
    once = autopipe.optimize(written, seconds=0)
    assert once.class_names == ["cat", "dog"]
    assert once.file_paths == written.file_paths
    twice = autopipe.optimize(once, seconds=0)
    assert twice.class_names == ["cat", "dog"]
    assert twice.original is once


def test_what_others_have_put_on_the_original_hides_nothing_of_its_own():
    written = Dataset.range(6)
    written.knobs, written.explain, written.note = {}, None, "six"
    dataset = autopipe.optimize(written, seconds=0)
    assert dataset.note == "six"
    assert dataset.knobs
    assert dataset.explain()


def test_optimizing_an_optimized_dataset_changes_nothing_more():
    once = autopipe.optimize(Dataset.range(10).map(add_one).batch(3), rules=["parallel_map", "prefetch_at_end"])
    twice = autopipe.optimize(once, rules=["parallel_map", "prefetch_at_end"])
    assert twice.tree == once.tree
    assert not twice.explain().rewriting.steps


def test_a_try_changes_one_iterator_and_not_the_dataset():
    dataset = autopipe.optimize(Dataset.range(30).map(add_one).batch(3), rules=["parallel_map", "prefetch_at_end"])
    before = dataset.knobs
    with listening() as readings:
        one, other = iter(dataset), iter(dataset)
    seen = next(one).numpy().tolist()
    dataset.try_out(readings[0], {"prefetch.buffer_size": 7})
    assert (readings[0].knobs["prefetch.buffer_size"], readings[1].knobs, dataset.knobs) == (7, before, before)
    dataset.retune(before)
    assert readings[0].knobs == before
    assert seen + [int(x) for batch in one for x in batch] == list(range(1, 31))
    assert [int(x) for batch in other for x in batch] == list(range(1, 31))


def test_a_try_of_the_next_iterator_is_for_that_one_only_until_knobs_are_set():
    dataset = autopipe.optimize(Dataset.range(30).map(add_one).batch(3), rules=["parallel_map", "prefetch_at_end"])
    before, other = dataset.knobs, {"prefetch.buffer_size": 7}
    with listening() as readings:
        dataset.try_out_next(other)
        assert numbers(dataset) == numbers(dataset) == list(range(1, 31))
        dataset.try_out_next(other)
        dataset.retune(before)
        assert numbers(dataset) == list(range(1, 31))
    assert [reading.knobs for reading in readings] == [before | other, before, before]
    assert dataset.knobs == before


def test_knobs_from_the_next_iterator_on_leave_the_one_that_is_read_as_it_is():
    dataset = autopipe.optimize(Dataset.range(30).map(add_one).batch(3), rules=["parallel_map", "prefetch_at_end"])
    before, other = dataset.knobs, {"prefetch.buffer_size": 7}
    with listening() as readings:
        iterator = iter(dataset)
        seen = next(iterator).numpy().tolist()
        dataset.try_out_next({"prefetch.buffer_size": 5})
        dataset.retune_next(other)
        assert seen + [int(x) for batch in iterator for x in batch] == list(range(1, 31))
        assert numbers(dataset) == numbers(dataset) == list(range(1, 31))
    assert [reading.knobs for reading in readings] == [before, before | other, before | other]
    with pytest.raises(KnobError, match="prefetch.buffer_size"):
        dataset.retune_next({"prefetch.buffer_size": 0})
    assert dataset.knobs == before | other
