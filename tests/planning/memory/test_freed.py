"""What a batch leaves is kept for the next one, where the C library would give it back and nobody has told it to."""

import ctypes
import os
import subprocess
import sys

import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline.extract import extract
from autopipe.planning.memory import freed
from autopipe.planning.memory.freed import KEPT_BYTES, allocator, freed_memory, give_back_free_memory, who_says
from autopipe.planning.memory.machine import resident_bytes

Dataset = tf.data.Dataset
MEBIBYTE = 2**20
PLENTY = 2**40


def elements_of(size):
    return Dataset.range(20).map(lambda x: tf.fill([size], tf.cast(x, tf.uint8)))


@pytest.fixture(autouse=True)
def glibc(monkeypatch):
    """Have tensors come from glibc, which is told nothing."""
    monkeypatch.setattr(freed, "allocator", lambda: "glibc")
    for name in ("GLIBC_TUNABLES", *freed._VARIABLES):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("dataset", "size"),
    [
        pytest.param(elements_of(MEBIBYTE), "1 MiB", id="elements"),
        pytest.param(elements_of(MEBIBYTE).batch(8), "8 MiB", id="batches, of which the last may be smaller"),
        pytest.param(elements_of(MEBIBYTE).batch(64), "1 MiB", id="batches that come from no heap"),
        pytest.param(elements_of(MEBIBYTE).map(lambda x: x[0]), "1 MiB", id="elements on the way"),
    ],
)
def test_large_blocks_are_kept(dataset, size):
    found = freed_memory(extract(dataset), PLENTY, {})
    assert found.kept
    assert f"blocks of {size}" in found.because


@pytest.mark.parametrize(
    "dataset",
    [
        pytest.param(Dataset.range(20), id="small elements"),
        pytest.param(elements_of(64 * MEBIBYTE), id="elements that come from no heap"),
        pytest.param(Dataset.from_tensors(["a text"]), id="texts"),
    ],
)
def test_nothing_is_done_where_it_would_change_nothing(dataset):
    assert freed_memory(extract(dataset), PLENTY, {}) is None


@pytest.mark.parametrize("other", ["tensorflow", "unknown"])
def test_other_allocators_are_left_alone(monkeypatch, other):
    monkeypatch.setattr(freed, "allocator", lambda: other)
    assert freed_memory(extract(elements_of(MEBIBYTE)), PLENTY, {}) is None


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"MALLOC_TRIM_THRESHOLD_": "131072"}, "MALLOC_TRIM_THRESHOLD_"),
        ({"MALLOC_MMAP_THRESHOLD_": "131072"}, "MALLOC_MMAP_THRESHOLD_"),
        ({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=4096"}, "GLIBC_TUNABLES"),
    ],
)
def test_what_the_process_was_started_with_holds(environment, named):
    assert who_says(environment) == named
    found = freed_memory(extract(elements_of(MEBIBYTE)), PLENTY, environment)
    assert not found.kept
    assert named in found.because


def test_variables_that_say_nothing_of_it_change_nothing():
    assert who_says({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "MALLOC_ARENA_MAX": "2"}) is None


def test_a_small_budget_leaves_no_room_for_it():
    found = freed_memory(extract(elements_of(MEBIBYTE)), KEPT_BYTES, {})
    assert not found.kept
    assert "the RAM budget of 48 MiB" in found.because


def test_a_container_with_a_share_of_the_cpus_has_heaps_for_all_of_them(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    assert not freed_memory(extract(elements_of(MEBIBYTE)), 100 * KEPT_BYTES, {}).kept


@pytest.mark.parametrize("ram_budget", [0, PLENTY], ids=["not kept", "kept"])
def test_it_is_done_and_told_by_optimize_and_told_by_explain(monkeypatch, ram_budget):
    told = []
    monkeypatch.setattr("autopipe.api.keep_freed_memory", lambda: told.append("keep"))
    accounts = [
        autopipe.explain(elements_of(MEBIBYTE), ram_budget=ram_budget, seconds=0),
        autopipe.optimize(elements_of(MEBIBYTE), ram_budget=ram_budget, seconds=0).explain(),
    ]
    assert told == ["keep"] * bool(ram_budget)
    for account in accounts:
        assert account.to_dict()["freed_memory"]["kept"] is bool(ram_budget)
        assert f"Memory of a batch: {'kept' if ram_budget else 'not kept'} for the next one" in str(account)


def test_the_account_is_silent_where_there_is_nothing_to_say():
    account = autopipe.optimize(Dataset.range(5), seconds=0).explain()
    assert "freed_memory" not in account.to_dict()
    assert "Memory of a batch" not in str(account)


CODE = """
import os, resource, statistics
import tensorflow as tf
from autopipe.planning.memory.freed import allocator, keep_freed_memory
# One process each, forked where TensorFlow has not run yet: the child would wait for threads that it does not have.
if child := os.fork():
    os.waitpid(child, 0)
    keep_freed_memory()
assert allocator() == "glibc", allocator()
image = tf.data.Dataset.range(128).map(lambda x: tf.fill([2**19], tf.cast(x, tf.uint8)), 2)
dataset = image.batch(8).prefetch(1)
faults = []
for _ in range(11):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for batch in dataset:
        pass
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(round(statistics.median(faults[4:])), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux" or allocator() == "unknown", reason="the C library is another one")
def test_batches_of_a_process_that_keeps_what_they_leave_fault_less():
    left_out = ("GLIBC_TUNABLES", *freed._VARIABLES)
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment["TF_ENABLE_ONEDNN_OPTS"] = "0"
    command = [sys.executable, "-c", CODE]
    ran = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    as_it_is, kept = map(int, ran.stdout.split())
    assert kept < as_it_is / 2


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library has no malloc_trim")
def test_freed_memory_below_what_is_still_held_is_given_back():
    library = ctypes.CDLL(None)
    library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    size, count = 100_000, 1000
    blocks = [library.malloc(size) for _ in range(count)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    held = resident_bytes()
    *others, last = blocks
    for block in others:
        library.free(block)
    give_back_free_memory()
    assert resident_bytes() < held - size * count * 0.8
    library.free(last)
