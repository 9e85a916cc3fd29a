"""A pipeline that is measured fills caches of its own, once, and leaves nothing behind."""

import tensorflow as tf

from autopipe.pipeline import ir
from autopipe.pipeline.extract import extract
from autopipe.pipeline.knobs import with_knobs, with_thread_pool
from autopipe.planning.costs.own_caches import OwnCaches

Dataset = tf.data.Dataset


def drawn(dataset):
    return list(dataset.as_numpy_iterator())


def test_what_fills_a_cache_runs_once_whatever_the_knobs():
    tree = with_thread_pool(extract(Dataset.range(50).shuffle(50).cache().prefetch(2)))
    with OwnCaches(tree) as caches:
        first = drawn(caches.build(tree))
        assert drawn(caches.build(with_knobs(tree, {"thread_pool.size": 3, "prefetch.buffer_size": 5}))) == first
    with OwnCaches(tree) as others:
        assert drawn(others.build(tree)) != first


def test_each_of_several_caches_has_its_own_elements():
    left, right = (Dataset.range(start, start + 9).shuffle(9).cache() for start in (0, 100))
    tree = extract(Dataset.zip(left, right))
    with OwnCaches(tree) as caches:
        first = drawn(caches.build(tree))
        assert drawn(caches.build(tree)) == first
    assert sorted(one for one, _ in first) == list(range(9))
    assert sorted(other for _, other in first) == list(range(100, 109))


def test_the_caches_of_the_author_are_left_alone(tmp_path):
    dataset = Dataset.range(5).shuffle(5).cache()
    tree = extract(dataset.cache(str(tmp_path / "cache")))
    with OwnCaches(tree) as caches:
        assert sorted(drawn(caches.build(tree))) == list(range(5))
        (moved,) = (node for node in (caches.moved(tree),) if isinstance(node, ir.Cache))
        assert list(tmp_path.iterdir()) == []
        assert tf.io.gfile.exists(f"{moved.filename}.index")
    assert not tf.io.gfile.exists(f"{moved.filename}.index")


def test_a_cache_on_disk_that_is_there_is_read_where_it_is(tmp_path):
    dataset = Dataset.range(5).shuffle(5).cache(str(tmp_path / "cache"))
    written = drawn(dataset)
    tree = extract(dataset)
    with OwnCaches(tree) as caches:
        assert caches.moved(tree) is tree
        assert drawn(caches.build(tree)) == written
