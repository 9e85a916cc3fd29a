"""A cache is made only where every epoch reads it to its end, as far as the numbers of elements are known."""

import pytest
import tensorflow as tf

from autopipe.pipeline import ir, trees
from autopipe.runtime.caches.memories import Memories
from sides import apply, assert_refuses

RULE = "cache_fixed_work"
Dataset = tf.data.Dataset
ALL = Dataset.from_tensor_slices([str(number) for number in range(10)])
SOME = ALL.filter(lambda text: tf.strings.length(text) > 0)
TEN, TWENTY = map(tf.data.experimental.assert_cardinality, (10, 20))


def work(text):
    return tf.strings.upper(text)


MADE, SOME_MADE = ALL.map(work), SOME.map(work)


@pytest.mark.parametrize(
    "read_in_part",
    [
        MADE.take(9),
        MADE.batch(4).take(2),
        MADE.shuffle(10).repeat().batch(4).take(2),
        SOME_MADE.take(10),
        Dataset.zip((MADE, Dataset.range(9))),
        Dataset.zip((Dataset.range(9), MADE.repeat())),
        Dataset.zip((SOME_MADE, Dataset.range(20))),
        Dataset.zip((MADE, Dataset.range(20))).take(9),
    ],
)
def test_refuses_a_cache_that_no_epoch_would_fill(read_in_part):
    assert_refuses(RULE, read_in_part, "may stop before its end, and a cache that is not full is discarded")


@pytest.mark.parametrize(
    "read_whole",
    [
        MADE.take(10),
        MADE.batch(4).take(3),
        MADE.take(-1),
        MADE.repeat().batch(4).take(3),
        ALL.repeat(2).apply(TWENTY).map(work).take(12),
        Dataset.zip((MADE, Dataset.range(10))),
        Dataset.zip((MADE.repeat(), Dataset.range(20))),
        Dataset.zip((Dataset.range(5).repeat(), SOME_MADE)),
        Dataset.zip((SOME_MADE, SOME_MADE.map(lambda text: text[None]))),
        Dataset.zip((SOME.apply(TEN).shuffle(10).map(work), Dataset.range(10))),
        Dataset.zip((SOME.shuffle(10).apply(TEN).repeat(2).map(work), Dataset.range(20))),
    ],
)
def test_a_cache_that_every_epoch_reads_to_its_end_is_full_after_the_first(read_whole):
    done = apply(RULE, read_whole)
    (cache,) = {node for node in trees.walk(done.after) if isinstance(node, ir.Cache)}
    memories = Memories(done.after)
    assert sum(1 for _ in memories.build(done.after)) > 0
    assert memories.full, cache
