"""The fingerprint says which pipeline it is, wherever its data lies; a plan is written whole or not at all."""

import json
import math
import os
import resource
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf
from programs import run_program

import autopipe
from autopipe.errors import ArgumentError, PlanError
from autopipe.pipeline.extract import extract
from autopipe.pipeline.knobs import Knob
from autopipe.planning.plans.plan import Plan, carry_over, fingerprint

Dataset = tf.data.Dataset


def scale(x):
    return x * 2


def shift(x):
    return x + 2


def made(function=scale, size=4, n=9):
    return Dataset.range(n).map(function).shuffle(5).batch(size)


def same(one, two):
    return fingerprint(extract(one)) == fingerprint(extract(two))


@pytest.mark.parametrize("text", [None, b"{}", 3])
def test_what_is_no_text_is_named(text):
    with pytest.raises(PlanError, match="it is a "):
        Plan.from_json(text)


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
from autopipe.planning.plans.plan import fingerprint

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


def test_a_plan_replaces_the_one_that_was_there(tmp_path):
    path = tmp_path / "plan.json"
    Plan("one").save(path)
    Plan("two", knobs={"a": 1}, rules=("x",)).save(path)
    assert Plan.load(path) == Plan("two", knobs={"a": 1}, rules=("x",))
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]


def test_what_is_no_file_stays_what_it_is_and_so_does_a_link(tmp_path):
    plan = autopipe.optimize(Dataset.range(4), seconds=0).plan
    pipe, link, file = (tmp_path / name for name in ("pipe", "link", "plan.json"))
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    plan.save(pipe)
    assert os.read(reading, 10**6).decode() == plan.to_json()
    os.close(reading)
    file.write_text("before")
    link.symlink_to(file)
    plan.save(link)
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert file.read_text() == plan.to_json()


def test_a_plan_that_cannot_be_written_whole_leaves_the_one_before_and_nothing_else(tmp_path):
    Plan("one").save(tmp_path / "plan.json")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            Plan("two").save(tmp_path / "plan.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert Plan.load(tmp_path / "plan.json") == Plan("one")
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("path", ["", 5, None, "no_such_folder/plan.json"])
def test_a_plan_is_saved_in_a_file_that_can_be_written_or_said_not_to_be(path):
    with pytest.raises(ArgumentError, match="path must be a file in a folder that can be written to, but got"):
        Plan("one").save(path)


@pytest.mark.parametrize("path", ["", 5, None, "no_such_folder/plan.json"])
def test_what_is_no_path_is_no_plan(path):
    with pytest.raises(PlanError, match="A plan must be a readable text file, but"):
        Plan.load(path)


def test_a_plan_without_versions_is_an_older_one_and_loads():
    older = json.loads(Plan("ab12", machine={"cores": 2.5}).to_json())
    del older["versions"]
    assert Plan.from_json(json.dumps(older)) == Plan("ab12", machine={"cores": 2.5})


def test_a_figure_that_is_no_number_is_stored_as_null():
    plan = Plan("ab12", measured={"after": math.nan, "of": [1.5, math.inf], "ratio": {"low": -math.inf}})
    assert Plan.from_json(plan.to_json()).measured == {"after": None, "of": [1.5, None], "ratio": {"low": None}}


def test_what_became_of_a_plan_is_not_stored():
    carried = carry_over(Plan("ab12"), Plan("ab12"), [])
    assert carried.carried is not None
    assert Plan.from_json(carried.to_json()) == Plan("ab12")
    with pytest.raises(PlanError, match="unknown field 'carried'"):
        Plan.from_json('{"schema": 1, "fingerprint": "x", "carried": null}')


DEEP = '{"a":' * 9 + "1" + "}" * 9


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ('"knobs": {"a": NaN}', "NaN is no number"),
        ('"measured": {"after": -Infinity}', "-Infinity is no number"),
        ('"measured": {"after": 1e999}', "is too large"),
        (f'"knobs": {{"a": {"9" * 5000}}}', "a number of 5000 digits is too large"),
        ('"knobs": {"a": 999999999999}', "its knob 'a' is 999999999999"),
        ('"knobs": {"thread_pool.size": 20000}', "from -1 to 10,000"),
        ('"knobs": {"map.num_parallel_calls": -2}', "is -2, and not from -1"),
        ('"knobs": {"a": true}', "not all whole numbers"),
        ('"knobs": {"a": 2.0}', "not all whole numbers"),
        ('"knobs": []', "its knobs is a list"),
        ('"rules": [1]', "its rules are not all texts"),
        ('"rules": null', "its rules is a NoneType"),
        ('"rules": ["a"], "places": ["0"]', "its places are not all whole numbers"),
        ('"rules": ["a"], "places": [-1]', "its places are not all whole numbers"),
        ('"rules": ["a"], "places": [true]', "its places are not all whole numbers"),
        ('"rules": ["a"], "places": [0, 1]', "its places are 2, and not one for each of its 1 rules"),
        ('"places": 3', "its places is a int"),
        ('"keeps": "everything"', "its keeps is 'everything'"),
        ('"keeps": 3', "its keeps is a int"),
        ('"versions": {"tensorflow": 2}', "its versions are not all texts"),
        ('"machine": {"cores": 0}', "cores are 0"),
        ('"machine": {"cores": "many"}', "its machine's cores is 'many'"),
        ('"machine": {"cores": true}', "its machine's cores is True"),
        ('"machine": {"cores": 1e30}', "cores are 1e"),
        ('"machine": {"host": 7}', "its machine's host is a int"),
        ('"measured": {"machine": 7}', "the machine in its measured"),
        ('"measured": {"machine": {"cores": -1}}', "cores is -1"),
        (f'"measured": {DEEP}', "nested too deeply"),
        (f'"machine": {{"host": {"[" * 30}{"]" * 30}}}', "nested too deeply|host is a list"),
        ('"machine": {"host": "\\u001b[2Jboo"}', "cannot be printed"),
        ('"fingerprint": 7', "its fingerprint is a int"),
        (f'"{"x" * 5000}": 1', "unknown field 'xxxx"),
    ],
)
def test_a_hostile_or_damaged_plan_ends_in_one_clear_error(fields, words):
    with pytest.raises(PlanError, match=words) as caught:
        Plan.from_json(f'{{"schema": 1, "fingerprint": "x", {fields}}}')
    assert len(str(caught.value)) < 400
    assert "Make a new one with: autopipe tune" in str(caught.value)


@pytest.mark.parametrize("schema", ["2", "true", "null", '"1"', "[1]", "1.5"])
def test_another_schema_is_refused(schema):
    with pytest.raises(PlanError, match="its schema is"):
        Plan.from_json(f'{{"schema": {schema}, "fingerprint": "x"}}')


def test_what_is_no_text_file_is_no_plan(tmp_path):
    (tmp_path / "binary.json").write_bytes(bytes(range(256)))
    (tmp_path / "large.json").write_text(" " * (2**20 + 1))
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    for name in ("binary.json", "large.json", "folder.json", "pipe.json", "missing.json", "nul\0.json"):
        with pytest.raises(PlanError, match="must be a readable text file"):
            Plan.load(tmp_path / name)


KNOBS = (
    Knob("map[f].num_parallel_calls", "num_parallel_calls", -1),
    Knob("interleave[g].num_parallel_calls", "num_parallel_calls", -1, most=6),
    Knob("prefetch.buffer_size", "buffer_size", -1),
    Knob("thread_pool.size", "size", 0, automatic=0),
)


def carried(knobs, there, here, *, rules=(), applied=(), at=(), **given):
    stored = Plan("ab12", knobs=knobs, rules=rules, machine=there, **given)
    done = Plan("ab12", rules=applied, places=at, machine=here, versions={"tensorflow": "2.21.0"})
    return carry_over(stored, done, KNOBS)


@pytest.mark.parametrize(
    ("knob", "there", "here"),
    [
        ("map[f].num_parallel_calls", 16, 4),
        ("map[f].num_parallel_calls", 3, 1),
        ("map[f].num_parallel_calls", 1, 1),
        ("map[f].num_parallel_calls", -1, -1),
        ("thread_pool.size", 12, 3),
        ("thread_pool.size", 0, 0),
        ("prefetch.buffer_size", 16, 16),
        ("prefetch.buffer_size", -1, -1),
    ],
)
def test_what_is_so_many_for_each_core_is_scaled_to_fewer_cores(knob, there, here):
    plan = carried({knob: there}, {"cores": 8}, {"cores": 2})
    assert plan.knobs == {knob: here}
    assert plan.carried.scaled == ({} if there == here else {knob: (there, here)})


def test_more_cores_scale_up_to_the_limit_of_the_knob():
    plan = carried({"interleave[g].num_parallel_calls": 4, "thread_pool.size": 9}, {"cores": 0.5}, {"cores": 4096})
    assert plan.knobs == {"interleave[g].num_parallel_calls": 6, "thread_pool.size": 1_024}


def test_a_shuffle_of_all_there_is_is_read_again(tmp_path):
    dataset = tf.data.Dataset.range(9).shuffle(sys.maxsize).batch(2)
    plan = autopipe.optimize(dataset, seconds=0).plan
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json").knobs == plan.knobs
    assert autopipe.optimize(dataset, plan=tmp_path / "plan.json").knobs == plan.knobs


def test_who_asked_for_more_than_scaling_gives_keeps_it():
    assert carried({"thread_pool.size": 3_000}, {"cores": 2}, {"cores": 4}).knobs == {"thread_pool.size": 3_000}


@pytest.mark.parametrize("there", [{}, {"cores": 2}, {"cores": 2.0, "host": "other"}])
def test_nothing_is_scaled_where_the_cores_are_as_many_or_not_known(there):
    assert carried({"map[f].num_parallel_calls": 5}, there, {"cores": 2}).knobs == {"map[f].num_parallel_calls": 5}


def test_a_knob_is_left_out_only_where_the_rules_of_the_plan_were_not_applied_as_it_says():
    knobs = {"gone.buffer_size": 2, "prefetch.buffer_size": 3}
    refused = carried(knobs, {}, {}, rules=("a", "b", "b"), applied=("a",))
    assert (refused.knobs, refused.carried.left_out) == ({"prefetch.buffer_size": 3}, ("gone.buffer_size",))
    assert (refused.carried.rules, refused.carried.refused) == (("a",), ("b",))
    assert carried(knobs, {}, {}, rules=("a",), applied=("a",)).knobs == knobs
    once = carried(knobs, {}, {}, rules=("b", "b"), applied=("b",))
    assert (once.carried.refused, once.carried.left_out) == ((), ("gone.buffer_size",))
    elsewhere = carried(knobs, {}, {}, rules=("a",), places=(3,), applied=("a",), at=(2,))
    assert elsewhere.carried.left_out == ("gone.buffer_size",)
    assert carried(knobs, {}, {}, rules=("a",), places=(3,), applied=("a",), at=(3,)).knobs == knobs


def test_figures_say_that_they_are_from_another_machine_and_keep_saying_so():
    there = {"cores": 8, "host": "gpu-1"}
    plan = carried({}, there, {"cores": 2, "host": "pod"}, measured={"after": 1.4})
    assert plan.carried.elsewhere
    assert plan.measured == {"after": 1.4, "machine": there}
    again = carry_over(Plan.from_json(plan.to_json()), Plan("ab12", machine={"cores": 2, "host": "pod"}), KNOBS)
    assert again.carried.elsewhere
    assert again.measured == plan.measured
    home = carry_over(again, Plan("ab12", machine=there), KNOBS)
    assert not home.carried.elsewhere


def test_other_versions_are_told():
    assert not carried({}, {}, {}).carried.versions
    plan = carried({}, {}, {}, versions={"tensorflow": "2.20.0", "keras": "3.5"})
    assert plan.carried.versions == {"tensorflow": ("2.20.0", "2.21.0")}
