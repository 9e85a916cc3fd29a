"""An epoch is read to its end, unless nothing tells that there is one."""

import itertools

import pytest
import tensorflow as tf

from autopipe.pipeline.extract import extract
from autopipe.planning.measuring import whole_epochs
from autopipe.planning.measuring.whole_epochs import elements_of_epoch

NUMBER = tf.TensorSpec((), tf.int64)


def generated(make):
    return tf.data.Dataset.from_generator(make, output_signature=NUMBER)


def elements_of(dataset):
    return elements_of_epoch(dataset, extract(dataset))


def test_what_is_read_is_counted_whether_or_not_anything_tells_that_it_ends():
    assert elements_of(tf.data.Dataset.range(9)) == 9
    assert elements_of(tf.data.Dataset.range(9).filter(lambda x: x > 3)) == 5
    assert elements_of(generated(lambda: iter(range(9)))) == 9


def test_what_may_have_no_end_is_taken_for_endless_after_a_while(monkeypatch):
    monkeypatch.setattr(whole_epochs, "_LONGEST_SECONDS", 0.1)
    images = tf.data.Dataset.range(8).cache().repeat()
    assert elements_of(images) is None
    assert elements_of(tf.data.Dataset.zip((images, generated(itertools.count)))) is None


def test_what_surely_ends_is_read_however_long_it_takes(monkeypatch):
    monkeypatch.setattr(whole_epochs, "_LONGEST_SECONDS", 0.0)
    assert elements_of(tf.data.Dataset.range(9).filter(lambda x: x > 3).batch(2)) == 3


@pytest.mark.timeout(60)
def test_of_what_has_no_end_no_element_is_read():
    assert elements_of(tf.data.Dataset.range(9).filter(lambda x: x > 9).repeat()) is None
