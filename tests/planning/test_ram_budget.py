"""What autopipe adds stays within the RAM budget, as resident memory of a process of its own."""

import json

import pytest
from programs import run_program

MEBIBYTE = 2**20

PROGRAM = '''
import json, sys
import numpy as np, psutil, tensorflow as tf
import autopipe
from autopipe.planning.measuring.measure import SampleMeasurements

def measuring(name, *found):
    """Measure, since that takes memory; but no clock decides."""
    measure = getattr(SampleMeasurements, name)
    setattr(SampleMeasurements, name, lambda *given, **named: measure(*given, **named) and found)

measuring("caching", 1.0, 1e-4)
measuring("whole_speed", 1.0, 1.0, 1.0)
budget, share = int(sys.argv[1]), float(sys.argv[2])
count = int(budget * share / (256 * 256 * 3))
noise = np.random.default_rng(0).integers(0, 255, (64, 8, 8, 3))
jpegs = [tf.io.encode_jpeg(tf.cast(tf.image.resize(each, (256, 256)), tf.uint8)).numpy() for each in noise]

def load(jpeg):
    return tf.image.random_flip_left_right(tf.io.decode_jpeg(jpeg, channels=3))

def resident():
    return psutil.Process().memory_info().rss

written = tf.data.Dataset.from_tensor_slices(jpegs).repeat(-(-count // 64)).take(count).map(load).batch(8)
for _ in written: pass
before = resident()
dataset = autopipe.optimize(written, ram_budget=budget)
peak = resident()
for _ in range(2):
    for number, _ in enumerate(dataset):
        if number % 10 == 0:
            peak = max(peak, resident())
print(json.dumps({"added": peak - before, "rules": dataset.plan.rules}))
'''


# Beside a cache there are samples and buffers, of up to 80 MiB.
@pytest.mark.one_in(2)
@pytest.mark.parametrize(("mebibytes", "share"), [(400, 0.5), (200, 1.0)])
def test_what_is_added_stays_within_the_budget_whatever_a_cache_would_take(mebibytes, share):
    seen = json.loads(run_program(PROGRAM, mebibytes * MEBIBYTE, share))
    assert seen["added"] <= mebibytes * MEBIBYTE
    assert ("cache_fixed_work" in seen["rules"]) is (share < 1)
