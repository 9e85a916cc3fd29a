"""The fingerprint says which pipeline it is, wherever its data lies."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from programs import run_program

from autopipe.pipeline import ir
from autopipe.pipeline.extract import extract
from autopipe.planning.plans.fingerprint import fingerprint, stage_fingerprint

Dataset = tf.data.Dataset


def scale(x):
    return x * 2


def shift(x):
    return x + 2


def made(function=scale, size=4, n=9):
    return Dataset.range(n).map(function).shuffle(5).batch(size)


def same(one, two):
    return fingerprint(extract(one)) == fingerprint(extract(two))


def test_what_is_padded_with_makes_another_pipeline_but_not_how_numpy_prints_it():
    def padded(value):
        return Dataset.range(4).map(tf.range).padded_batch(2, padding_values=tf.constant(value, tf.int64))

    first = fingerprint(extract(padded(3)))
    assert fingerprint(extract(padded(4))) != first
    with np.printoptions(legacy="1.13"):
        assert fingerprint(extract(padded(3))) == first


def test_the_seed_of_the_process_makes_no_other_pipeline_but_whether_there_is_one_does():
    def drawing(seed):
        tf.random.set_seed(seed)
        try:
            drawn = tf.data.Dataset.range(9).map(lambda x: x + tf.random.uniform((), 0, 9, tf.int64))
            return fingerprint(extract(drawn))
        finally:
            tf.random.set_seed(None)

    unseeded, first, second = map(drawing, (None, 1, 2))
    assert first == second != unseeded


def test_the_same_pipeline_has_the_same_fingerprint():
    assert same(made(), made())


@pytest.mark.parametrize(
    "other",
    [
        made(shift),
        made(size=5),
        made(n=10),
        made().prefetch(1),
        made().unbatch(),
        Dataset.range(9).map(scale).shuffle(6).batch(4),
        Dataset.range(9).map(scale).shuffle(5, seed=1).batch(4),
        Dataset.range(9).map(scale).shuffle(5).batch(4, drop_remainder=True),
        Dataset.range(9).map(scale, num_parallel_calls=2).shuffle(5).batch(4),
        Dataset.range(9, output_type=tf.int32).map(scale).shuffle(5).batch(4),
    ],
)
def test_another_pipeline_has_another(other):
    assert not same(other, made())


def test_what_a_branch_of_a_function_does_is_part_of_it():
    def branching(factor):
        return Dataset.range(9).map(lambda x: tf.cond(x > 2, lambda: x * factor, lambda: x))

    assert same(branching(2), branching(2))
    assert not same(branching(2), branching(3))


def test_the_data_may_lie_elsewhere():
    def over(names, labels):
        return Dataset.from_tensor_slices((names, labels)).map(lambda name, label: (tf.io.read_file(name), label))

    one, two = over(["a/1.jpg", "a/2.jpg"], [0, 1]), over(["b/7.jpg", "b/8.jpg", "b/9.jpg"], [1, 1, 0])
    assert same(one, two)


def test_a_shuffle_of_all_files_is_the_same_for_more_files(tmp_path):
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.txt").touch()
    assert same(Dataset.list_files(f"{tmp_path}/t*.txt"), Dataset.list_files(f"{tmp_path}/*.txt"))
    assert not same(Dataset.list_files(f"{tmp_path}/*.txt"), Dataset.list_files(f"{tmp_path}/*.txt", shuffle=False))


@pytest.mark.parametrize(
    "make",
    [
        lambda n: Dataset.range(9).map(scale, num_parallel_calls=n).prefetch(n),
        lambda n: Dataset.range(9).map(scale).shuffle(5, seed=n),
        lambda n: Dataset.range(9).batch(3, num_parallel_calls=n),
        lambda n: tf.data.TextLineDataset([f"{n}.txt"], num_parallel_reads=n),
        lambda n: Dataset.range(9).cache(f"/tmp/{n}"),
        lambda n: Dataset.range(9).map(lambda x: tf.io.read_file(f"/checkout/{n}/data/" + tf.strings.as_string(x))),
    ],
    ids=["calls and buffers", "seed", "calls of a batch", "reads", "cache file", "path in a function"],
)
def test_what_each_run_or_machine_has_of_its_own_does_not_matter(make):
    assert same(make(3), make(7))


def test_texts_that_are_no_paths_do_matter():
    def split(by):
        return Dataset.from_tensor_slices(["a,b"]).map(lambda line: tf.strings.split(line, by))

    assert not same(split(","), split(";"))
    assert not same(split(","), split("/"))


def test_keys_of_features_do_matter_also_with_a_slash():
    def parsed(key):
        features = {key: tf.io.FixedLenFeature([], tf.string)}
        return Dataset.from_tensors("").map(lambda record: tf.io.parse_single_example(record, features)[key])

    assert same(parsed("image/encoded"), parsed("image/encoded"))
    assert not same(parsed("image/encoded"), parsed("image/depth"))


def test_what_autopipe_does_not_read_is_told_apart_by_its_functions():
    def scanned(step):
        return Dataset.range(9).scan(tf.constant(0, tf.int64), lambda state, x: (state + x, state * step))

    assert same(scanned(2), scanned(2))
    assert not same(scanned(2), scanned(3))


PIPELINE = """
import json
import sys
from pathlib import Path

import keras
import tensorflow as tf

from autopipe.pipeline.extract import extract
from autopipe.planning.plans.fingerprint import fingerprint

HERE = Path(__file__).parent


def branch(x):
    return tf.cond(x > 2, lambda: x * 2, lambda: x)


def read(name):
    # A path in a constant of the function, and Python that runs for each element.
    text = tf.io.read_file(tf.strings.join([str(HERE / "data"), "/", name]))
    return tf.py_function(lambda raw: len(raw.numpy()), [text], tf.int32)


def branches():
    numbers = tf.data.Dataset.range(9).map(branch).interleave(tf.data.Dataset.range, cycle_length=2)
    return numbers.scan(tf.constant(0, tf.int64), lambda state, x: (state + x, branch(x)))


def files():
    return tf.data.Dataset.list_files(str(HERE / "data" / "*" / "*.png")).map(read)


def images():
    # Keras draws a seed for the shuffle where it is given none.
    return keras.utils.image_dataset_from_directory(HERE / "data", image_size=(4, 4), batch_size=2, verbose=False)


for _ in range(int(sys.argv[1])):
    branches()
print(json.dumps([hash("text"), [fingerprint(extract(make())) for make in (branches, files, images)]]))
"""


def run_elsewhere(*command):
    """Run Python anew: all that is forked from one process hashes alike."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    arguments = [sys.executable, *map(str, command)]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_another_process_and_a_moved_checkout_with_other_files_find_the_same(tmp_path):
    png = tf.io.encode_png(tf.zeros([4, 4, 3], tf.uint8)).numpy()
    found = []
    for number, (run, checkout) in enumerate([(run_program, "first"), (run_elsewhere, "moved/elsewhere")]):
        folder = tmp_path / checkout
        for kind in ("cats", "dogs"):
            (folder / "data" / kind).mkdir(parents=True)
            for image in range(3 + number):
                (folder / "data" / kind / f"{checkout[0]}{image}.png").write_bytes(png)
        (folder / "pipeline.py").write_text(PIPELINE)
        found.append(json.loads(run(folder / "pipeline.py", 3 * number).splitlines()[-1]))
    shutil.rmtree(tmp_path)
    (one_seed, first), (another_seed, moved) = found
    assert one_seed != another_seed
    assert first == moved
    assert len(set(first)) == 3


def test_a_saved_dataset_may_lie_elsewhere(tmp_path):
    for name in ("here", "there"):
        tf.data.Dataset.range(3).save(str(tmp_path / name))
    assert same(*(tf.data.Dataset.load(str(tmp_path / name)) for name in ("here", "there")))


def test_what_is_kept_by_number_is_no_part_of_it():
    numbers, function = extract(Dataset.range(9).enumerate()), extract(Dataset.range(9).map(scale)).fn
    first, second = (ir.MemoizedMap(input=numbers, fn=function, source=numbers, table=table) for table in "ab")
    assert stage_fingerprint(first) == stage_fingerprint(second)


# Functions are texts here: what TensorFlow traces may be another graph in its next version.
STAGES = {
    ir.Shuffle: {"buffer_size": 5},
    ir.Shard: {"num_shards": 3, "index": 1},
    ir.Skip: {"count": 1},
    ir.Take: {"count": 7},
    ir.Enumerate: {},
    ir.Map: {"fn": "f"},
    ir.MemoizedMap: {"fn": "f", "source": ir.Node()},
    ir.Filter: {"predicate": "f"},
    ir.TakeWhile: {"predicate": "f"},
    ir.FlatMap: {"fn": "f"},
    ir.GroupByWindow: {"key_func": "f", "reduce_func": "f", "window_size_func": "f"},
    ir.Interleave: {"fn": "f", "cycle_length": 2, "block_length": 1},
    ir.LegacyInterleave: {
        "fn": "f",
        "cycle_length": 2,
        "block_length": 1,
        "deterministic": None,
        "buffer_output_elements": 2,
        "prefetch_input_elements": 2,
    },
    ir.FilesReader: {"kind": "tfrecord"},
    ir.Scan: {"fn": "f", "initial_state": ()},
    ir.IgnoreErrors: {},
    ir.Cache: {},
    ir.AssertCardinality: {"count": 7},
    ir.Batch: {"batch_size": 2},
    ir.Unbatch: {},
    ir.PaddedBatch: {"batch_size": 2, "padded_shapes": ((-1,),), "padding_values": (0,)},
    ir.Rebatch: {"batch_size": 3},
    ir.Window: {"size": 2, "shift": 2},
    ir.Repeat: {},
    ir.ThreadPool: {},
    ir.Prefetch: {},
}


def test_a_fingerprint_stays_what_it_is_from_release_to_release():
    """Plans that were written before hold the fingerprint; a new field of a stage must not make it another one."""
    tree = extract(Dataset.range(9))
    for kind, said in STAGES.items():
        tree = kind(input=tree, **said)
    assert fingerprint(tree) == "27d7f122d0a901e9"
