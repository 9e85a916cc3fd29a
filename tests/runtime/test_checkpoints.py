"""Iterators that could be saved in a checkpoint still can be; those that could not still cannot."""

import gc
import weakref

import pytest
import tensorflow as tf
from disposing import wait_for_disposal

import autopipe

Dataset = tf.data.Dataset


def slow(x):
    return tf.reduce_sum(tf.linalg.inv(tf.eye(200) + tf.cast(x, tf.float32)))


def memoized(after=lambda x: x):
    dataset = autopipe.optimize(Dataset.range(40).shuffle(40, seed=3).take(32).map(slow).map(after))
    assert "cache_results" in dataset.plan.rules
    return dataset


def test_an_iterator_goes_on_from_a_checkpoint(tmp_path):
    iterator = iter(memoized())
    for _ in range(10):
        next(iterator)
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    path = checkpoint.save(str(tmp_path / "saved"))
    expected = [float(x) for x in iterator]
    checkpoint.restore(path)
    assert [float(x) for x in iterator] == expected
    assert len(expected) == 22


def test_so_does_one_over_batches_of_what_was_optimized(tmp_path):
    iterator = iter(memoized().batch(4))
    next(iterator)
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    path = checkpoint.save(str(tmp_path / "saved"))
    expected = [batch.numpy().tolist() for batch in iterator]
    checkpoint.restore(path)
    assert [batch.numpy().tolist() for batch in iterator] == expected
    assert len(expected) == 7


def test_another_process_would_work_out_what_it_needs(tmp_path):
    first, other = iter(memoized()), iter(memoized())
    for _ in range(10):
        next(first)
    path = tf.train.Checkpoint(iterator=first).save(str(tmp_path / "saved"))
    tf.train.Checkpoint(iterator=other).restore(path)
    assert [float(x) for x in other] == [float(x) for x in first]


def test_what_draws_is_refused_as_it_was(tmp_path):
    dataset = memoized(lambda x: x + tf.random.uniform([]))
    for each in (dataset, dataset.original):
        with pytest.raises(tf.errors.FailedPreconditionError, match="RandomUniform is stateful"):
            tf.train.Checkpoint(iterator=iter(each)).save(str(tmp_path / "saved"))


def test_an_iterator_is_gone_when_nobody_holds_it():
    iterator = iter(memoized())
    gone = weakref.ref(iterator)
    gc.disable()
    try:
        del iterator
        wait_for_disposal()
        assert gone() is None
    finally:
        gc.enable()
