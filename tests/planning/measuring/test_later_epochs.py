"""What is measured of epochs after the first has full caches, and tables of results."""

import tensorflow as tf

from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.planning.measuring.held_samples import HeldSamples
from autopipe.planning.measuring.later_epochs import in_later_epochs
from autopipe.planning.measuring.samples import take_sample

Dataset = tf.data.Dataset


def test_results_that_are_kept_are_there_and_their_functions_still_start_with_each_iterator():
    numbers = Dataset.range(200).map(lambda x: tf.sin(tf.cast(x, tf.float32)))
    mapped = extract(numbers)
    kept = ir.MemoizedMap(input=extract(Dataset.range(200).enumerate()), fn=mapped.fn, source=mapped.input)
    endless = in_later_epochs(ir.Batch(input=kept, batch_size=4), lambda node: HeldSamples().source(node, take_sample))
    (steady,) = [node for node in trees.walk(endless) if isinstance(node, ir.MemoizedMap)]
    size = int(tf.raw_ops.LookupTableSizeV2(table_handle=steady.table))
    taken = {float(x) for x in build(steady).take(3 * size)}
    # Of those ahead, some are there too.
    assert len(taken) == 64 <= size == int(tf.raw_ops.LookupTableSizeV2(table_handle=steady.table))
