import gc
import time
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from autopipe.telemetry import StallReading
from autopipe.telemetry.stall import StallCounter, metered

pytestmark = pytest.mark.timed

BATCHES = 20


def slow(seconds: float) -> tf.data.Dataset:
    def wait(x: Any) -> Any:
        time.sleep(seconds)
        return x

    return tf.data.Dataset.range(BATCHES).map(lambda x: tf.ensure_shape(tf.numpy_function(wait, [x], tf.int64), ()))


def consume(dataset: tf.data.Dataset, seconds: float = 0.0) -> float:
    """Take every element, and ``seconds`` over each; return how long was waited for them."""
    waited = 0.0
    iterator = iter(dataset)
    while True:
        asked = time.perf_counter()
        if next(iterator, None) is None:
            return waited
        waited += time.perf_counter() - asked
        time.sleep(seconds)


@pytest.mark.parametrize("step", [0.0, 0.03])
def test_a_slow_pipeline_is_waited_for_whatever_the_consumer_does_meanwhile(step: float) -> None:
    counter = StallCounter()
    waited = consume(metered(slow(0.02), counter, inner_prefetch=False), step)
    reading = counter.read()
    assert reading.batches == BATCHES
    assert BATCHES * 0.02 <= reading.waiting_seconds <= waited + 0.01


def test_read_ahead_hides_the_waiting_from_a_slower_consumer() -> None:
    counter = StallCounter()
    consume(metered(slow(0.01), counter, inner_prefetch=True), 0.03)
    assert counter.read().waiting_seconds < 0.5 * BATCHES * 0.01


def test_read_ahead_leaves_the_rest_of_the_waiting_to_a_faster_consumer() -> None:
    counter = StallCounter()
    consume(metered(slow(0.03), counter, inner_prefetch=True), 0.01)
    assert counter.read().waiting_seconds == pytest.approx(BATCHES * 0.02, rel=0.4)


def test_a_pipeline_faster_than_its_consumer_is_hardly_waited_for() -> None:
    counter = StallCounter()
    consume(metered(tf.data.Dataset.range(BATCHES), counter, inner_prefetch=False), 0.01)
    assert counter.read().waiting_seconds < 0.25 * BATCHES * 0.01


def test_the_waiting_inside_a_compiled_step_is_seen() -> None:
    counter = StallCounter()

    step = tf.function(lambda iterator: tf.add(next(iterator), next(iterator)))
    iterator = iter(metered(slow(0.02), counter, inner_prefetch=False))
    step(iterator)
    before = counter.read()
    for _ in range(4):
        step(iterator)
    after = counter.read()
    assert after.batches - before.batches == 8
    assert 8 * 0.02 <= after.waiting_seconds - before.waiting_seconds < 3 * 8 * 0.02


RAGGED = tf.ragged.constant([[1], [2, 3], []] * 3)
SPARSE = tf.sparse.from_dense(np.eye(9))
DENSE = np.arange(27, dtype=np.float32).reshape(9, 3)
DATASETS = {
    "single tensor": tf.data.Dataset.range(9),
    "tuple": tf.data.Dataset.from_tensor_slices((DENSE, np.arange(9))).batch(4),
    "tuple of one": tf.data.Dataset.from_tensor_slices((DENSE,)),
    "nest": tf.data.Dataset.from_tensor_slices({"a": {"b": (DENSE,)}, "c": np.arange(9)}),
    "ragged": tf.data.Dataset.from_tensor_slices(RAGGED).batch(2, drop_remainder=True),
    "sparse": tf.data.Dataset.from_tensor_slices((SPARSE, DENSE)).batch(2),
    "strings": tf.data.Dataset.from_tensor_slices(["x", "yz"]),
    "unknown shape": tf.data.Dataset.range(9).ragged_batch(2),
    "unknown cardinality": tf.data.Dataset.range(9).filter(lambda x: x > 3),
    "infinite": tf.data.Dataset.range(3).repeat(),
    "empty": tf.data.Dataset.range(0),
}


def plain(element: Any) -> list[Any]:
    parts = []
    for part in tf.nest.flatten(element):
        if isinstance(part, tf.RaggedTensor):
            parts.append(part.to_list())
        else:
            dense = tf.sparse.to_dense(part) if isinstance(part, tf.SparseTensor) else part
            parts.append(np.asarray(dense).tolist())
    return parts


@pytest.mark.parametrize("inner_prefetch", [False, True])
@pytest.mark.parametrize("dataset", DATASETS.values(), ids=DATASETS.keys())
def test_elements_structure_and_cardinality_stay(dataset: tf.data.Dataset, inner_prefetch: bool) -> None:
    counter = StallCounter()
    timed = metered(dataset, counter, inner_prefetch=inner_prefetch)
    assert timed.element_spec == dataset.element_spec
    assert timed.cardinality().numpy() == dataset.cardinality().numpy()
    expected = [plain(element) for element in dataset.take(20)]
    assert [plain(element) for element in timed.take(20)] == expected
    assert counter.read().batches >= len(expected)


def test_only_the_prefetch_that_tensorflow_adds_is_turned_off() -> None:
    options = tf.data.Options()
    options.deterministic = False
    options.experimental_optimization.map_fusion = True
    dataset = tf.data.Dataset.range(3).with_options(options)
    kept = metered(dataset, StallCounter(), inner_prefetch=False).options()
    assert kept.experimental_optimization.inject_prefetch is False
    assert kept.experimental_optimization.map_fusion is True
    assert kept.deterministic is False


def test_tensorflow_still_rewrites_the_pipeline_before_the_meter() -> None:
    options = tf.data.Options()
    options.experimental_optimization.map_and_batch_fusion = True
    dataset = tf.data.Dataset.range(64).map(lambda x: x + 1, num_parallel_calls=2).batch(4).with_options(options)
    iterator = iter(metered(dataset, StallCounter(), inner_prefetch=True))
    next(iterator)
    names = [node.name for node in tf.data.experimental.get_model_proto(iterator).nodes.values()]
    assert any("MapAndBatch" in name for name in names)


def test_a_counter_begins_at_nothing_where_it_uses_again_what_another_left() -> None:
    gc.collect()
    first = StallCounter()
    handle = first.handle
    consume(metered(tf.data.Dataset.range(5), first, inner_prefetch=False))
    assert first.read().batches == 5
    del first
    gc.collect()
    others = [StallCounter() for _ in range(3)]
    assert any(each.handle is handle for each in others)
    assert [each.read() for each in others] == [StallReading(0.0, 0)] * 3


def test_two_counters_at_once_count_apart() -> None:
    first, second = StallCounter(), StallCounter()
    consume(metered(tf.data.Dataset.range(5), first, inner_prefetch=False))
    consume(metered(tf.data.Dataset.range(7), second, inner_prefetch=False))
    assert (first.read().batches, second.read().batches) == (5, 7)


def test_one_counter_adds_up_several_passes() -> None:
    counter = StallCounter()
    assert counter.read() == StallReading(0.0, 0)
    dataset = metered(tf.data.Dataset.range(5), counter, inner_prefetch=False)
    for _ in range(2):
        consume(dataset)
    consume(metered(tf.data.Dataset.range(3), counter, inner_prefetch=True))
    assert counter.read().batches == 13


def test_a_live_iterator_goes_on_exactly_once_through_a_swap() -> None:
    counter = StallCounter()

    def pipeline(calls: int, ahead: int) -> tf.data.Dataset:
        inner = tf.data.Dataset.range(300).shuffle(50, seed=1).map(lambda x: x + 1, num_parallel_calls=calls)
        options = tf.data.Options()
        options.threading.private_threadpool_size = calls
        return metered(inner.batch(5).prefetch(ahead).with_options(options), counter, inner_prefetch=False)

    expected = [batch.tolist() for batch in pipeline(1, 1).as_numpy_iterator()]
    before = counter.read().batches
    settings = {10: (4, 8), 20: (1, 1), 40: (2, 16)}
    iterator = iter(pipeline(1, 1))
    resource = iterator._iterator_resource
    seen = []
    for place in range(len(expected)):
        if place in settings:
            state = tf.raw_ops.SerializeIterator(resource_handle=resource, external_state_policy=1)
            tuned = pipeline(*settings[place])
            tf.raw_ops.MakeIterator(dataset=tuned._apply_debug_options()._variant_tensor, iterator=resource)
            tf.raw_ops.DeserializeIterator(resource_handle=resource, serialized=state)
        seen.append(next(iterator).numpy().tolist())
    assert seen == expected
    assert next(iterator, None) is None
    assert counter.read().batches - before == len(expected)
