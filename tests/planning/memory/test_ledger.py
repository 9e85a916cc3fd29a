"""Datasets of one process share the memory there is."""

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.optimizer import rewrite
from autopipe.pipeline.extract import extract
from autopipe.planning.memory.ledger import promise, promised_bytes
from autopipe.rules import Keeps
from sides import AlwaysFaster, Answers, apply, named

pytestmark = pytest.mark.usefixtures("as_fast")

JPEG = tf.io.encode_jpeg(np.zeros((64, 64, 3), np.uint8)).numpy()
DECODED = 64 * 64 * 3
HELD_BESIDE = 200


def images(count=20):
    return tf.data.Dataset.from_tensors(JPEG).repeat(count).cache().map(tf.io.decode_jpeg).batch(4)


def promised_now():
    """What living datasets may fill; those of earlier tests may still wait for the collector."""
    gc.collect()
    return promised_bytes()


def test_what_a_dataset_may_fill_is_promised_for_as_long_as_it_lives():
    before = promised_now()
    dataset = autopipe.optimize(images(), rules=["cache_after_map"])
    assert promised_bytes() - before == 20 * (DECODED + HELD_BESIDE)

    del dataset
    assert promised_now() == before


def test_what_caches_hold_already_is_promised_no_more():
    before = promised_now()
    dataset = autopipe.optimize(images(), rules=["cache_after_map"])
    assert promised_bytes() > before
    assert sum(1 for _ in dataset) == 5
    assert promised_bytes() == before


def test_one_thread_may_promise_while_another_adds_up():
    class Promised:
        caches_are_filled = True

    def promise_often(_):
        for _ in range(300):
            promise(Promised(), 1)
            promised_bytes()

    before = promised_now()
    kept = [Promised() for _ in range(1000)]
    for each in kept:
        promise(each, 1)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(promise_often, range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert promised_bytes() == before


def test_a_cache_that_the_author_wrote_is_not_promised():
    before = promised_now()
    dataset = autopipe.optimize(images(), rules=[])
    assert promised_now() == before
    assert dataset.plan.rules == ()


def test_caches_of_two_branches_must_fit_together():
    both = tf.data.Dataset.zip((images(), images()))
    fits_one = Answers(cache_bytes=600, ram_budget=1000)
    done = apply("cache_after_map", both, Keeps.SEQUENCE, answers=fits_one)
    assert extract(both) == done.before
    assert not done.steps
    assert done.refusals
    assert all("above the RAM budget" in refusal.reason for refusal in done.refusals)


def test_a_cache_stays_promised_when_a_later_rule_hides_how_many_elements_it_holds():
    odd = tf.data.Dataset.range(500).map(lambda x: x * 3).filter(lambda x: x % 2 == 1)
    moving, hiding = named("cache_after_map"), named("filter_batches")
    written = extract(odd.batch(16).cache().map(lambda x: x + 1))
    done = rewrite(written, [moving, hiding], keeps=Keeps.SEQUENCE, measurements=AlwaysFaster())
    assert [step.rule for step in done.steps] == ["cache_after_map", "filter_batches"]
    assert done.new_cache_bytes >= 250 * 8
