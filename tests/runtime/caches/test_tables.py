"""Whether memoized maps have nearly all they will ever hold."""

import tensorflow as tf

import autopipe
from autopipe.functions.joined.memoized import new_table
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.runtime.caches.tables import Tables

Dataset = tf.data.Dataset


def memoized(source, moving=lambda dataset: dataset):
    mapped = extract(source.map(lambda x: x * 2))
    moved = extract(moving(source.enumerate()))
    return ir.MemoizedMap(input=moved, fn=mapped.fn, source=mapped.input, table=new_table())


def epochs_until_full(tree, most=9):
    tables = Tables(tree)
    for epoch in range(most):
        tables.note_start()
        if tables.are_full:
            return epoch
        list(build(tree))
    return None


def test_a_pipeline_that_memoizes_nothing_is_always_full():
    assert epochs_until_full(extract(Dataset.range(3).map(lambda x: x + 1))) == 0


def test_all_is_there_once_an_epoch_found_it_so():
    assert epochs_until_full(memoized(Dataset.range(10))) == 3


def test_the_iterators_that_keras_makes_between_two_epochs_are_no_epoch():
    tree = memoized(Dataset.range(1000), lambda numbers: numbers.shuffle(1000).take(100))
    tables = Tables(tree)
    for _epoch in range(2):
        tables.note_start()
        list(build(tree))
        tables.note_start()
        assert not tables.are_full


def test_what_is_never_read_is_not_waited_for():
    assert epochs_until_full(memoized(Dataset.range(100), lambda numbers: numbers.take(10))) == 3


def test_where_epochs_take_others_of_a_shuffle_all_but_a_few_do():
    tree = memoized(Dataset.range(1000), lambda numbers: numbers.shuffle(1000).take(700))
    found = epochs_until_full(tree, 20)
    assert 3 <= found <= 8


def test_a_dataset_is_full_with_its_tables():
    dataset = autopipe.optimize(Dataset.range(20).shuffle(20).take(20).map(lambda x: x + 1), rules=(), seconds=0)
    assert dataset.caches_are_full


def test_where_one_iterator_serves_all_epochs_its_elements_tell():
    tree = memoized(Dataset.range(1000), lambda numbers: numbers.repeat())
    tables = Tables(tree)
    for given, _ in enumerate(build(tree).take(5000), start=1):
        if tables.have_settled(given):
            break
    # All but a few, of which some are made ahead.
    assert int(tf.raw_ops.LookupTableSizeV2(table_handle=tree.table)) > 900
    assert given < 5000
    assert not tables.are_full
