"""Peak memory is that of the pipeline: what it holds is seen, and what was there before it is not."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks import memory, report
from benchmarks.cases import e_parse_example
from benchmarks.children import load_data, run_child, save_data
from benchmarks.measuring import VARIANTS
from benchmarks.memory import GIVING_BACK, MemoryResult, MemoryRun, VariantMemory, measure_memory
from benchmarks.peak import PeakMeter, resident_bytes

ROOT = Path(__file__).parents[2]
MEGABYTE = 10**6
HELD = 120 * MEGABYTE
TINY = replace(e_parse_example.CASES[0], make_data=partial(e_parse_example.make_data, records=2_000))


# In a process of its own, as memory that other tests have given back may be taken again unseen.
HOLDING = """
import json
from dataclasses import asdict
import tensorflow as tf
from benchmarks.cases._base import Case
from benchmarks.memory import run_variant

options = tf.data.Options()
options.experimental_optimization.inject_prefetch = False

def large(count):
    # Drawn, so that no page of it can be shared.
    return tf.data.Dataset.range(count).map(lambda x: tf.random.uniform([5_000_000])).with_options(options)

case = Case("z", "large", "", "arrays", None, large, lambda count: large(count).cache(), None, None)
print(json.dumps([asdict(run_variant(case, variant, 6)) for variant in ("expert", "naive")]))
"""


@pytest.mark.parametrize("sampled", [False, True])
def test_a_peak_is_seen_and_forgotten(sampled):
    with PeakMeter(sampled) as before:
        pass
    with PeakMeter(sampled) as meter:
        held = np.ones(HELD, np.uint8)
        reached = resident_bytes()
        time.sleep(0.1)  # for a thread that looks now and then
        del held
    with PeakMeter(sampled) as after:
        pass
    assert meter.peak_bytes > reached - HELD * 0.1
    assert meter.peak_bytes > before.peak_bytes + HELD * 0.9
    assert after.peak_bytes < meter.peak_bytes - HELD * 0.9


@pytest.mark.deep
def test_a_pipeline_that_holds_its_elements_is_seen():
    environment = {**os.environ, **GIVING_BACK}
    command = [sys.executable, "-c", HOLDING]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
    holding, passing = (MemoryRun(**each) for each in json.loads(done.stdout.splitlines()[-1]))
    assert HELD * 0.9 < holding.reading < HELD * 1.5
    assert passing.reading < HELD * 0.6
    assert holding.preparing < HELD * 0.2
    assert holding.batch == passing.batch == 5_000_000 * 4
    assert passing.stated_cache == holding.stated_cache == 0


@pytest.mark.deep
def test_a_variant_has_a_process_of_its_own(tmp_path, monkeypatch):
    variants = ("autopipe(naive)",)
    monkeypatch.setattr(memory, "VARIANTS", variants)
    told = []
    result = measure_memory(TINY, tmp_path, repeats=1, on_run=told.append)
    assert (result.letter, result.name) == ("e", "parse_example")
    assert told == list(result.variants) == list(variants)
    for each in result.variants.values():
        assert 0 <= each.reading < 500 * MEGABYTE
        assert each.left <= each.preparing


def test_children_are_given_the_data_that_was_made_once(tmp_path):
    save_data(TINY, tmp_path)
    assert load_data(tmp_path) == [str(tmp_path / "files" / f"{number}.tfrecord") for number in range(4)]


def test_what_a_child_says_of_its_failure_is_told():
    with pytest.raises(RuntimeError, match="--variant"):
        run_child("benchmarks.memory", case="parse_example")


def variant(*peaks, stated=0):
    runs = (MemoryRun(*(size * MEGABYTE for size in (3, 1, peak, stated, 30, 14))) for peak in peaks)
    return VariantMemory(tuple(runs))


def test_a_peak_may_be_the_experts_and_the_stated_cache():
    peaks = [
        variant(50, 60),
        variant(100, 110),
        variant(1, 1),
        variant(500, 500, stated=400),
        variant(900, 910, stated=700),
    ]
    result = MemoryResult("a", "job", dict(zip(VARIANTS, peaks, strict=True)))
    assert result.above_allowed("autopipe(naive)") == -5 * MEGABYTE
    assert result.above_allowed("autopipe(expert)") == 100 * MEGABYTE
    assert result.above_written("autopipe(naive)") == 45 * MEGABYTE
    assert result.above_written("autopipe(expert)") == 100 * MEGABYTE
    assert result.is_above_written("autopipe(naive)")
    assert not result.is_above("autopipe(naive)")
    assert result.is_above("autopipe(expert)")
    text = report.markdown(report.Results(memory=[result]))
    assert (
        "| a | job | 14.0 | 55 (±5) | 105 (±5) | 1 (±0) | autopipe(naive) | 500 (±0) | 400 | -5 | **45** | 3 | 1 |"
        in text
    )
    assert "| autopipe(expert) | 905 (±5) | 700 | **100** | **100** | 3 | 1 |" in text
    assert "first used, 30 MB, is held before." in text
    assert "together: job (autopipe(expert)). It may be batches under way" in text
    assert "MALLOC" not in text
    given = replace(result, environment=GIVING_BACK)
    assert "ran with `MALLOC_TRIM_THRESHOLD_=131072`" in report.markdown(report.Results(memory=[given]))
    assert "MALLOC" not in report.markdown(report.Results(memory=[given, result]))
