"""A plan is written whole or not at all, and a damaged one ends in one clear error."""

import json
import math
import os
import resource
import sys

import pytest
import tensorflow as tf

import autopipe
from autopipe.errors import ArgumentError, PlanError
from autopipe.planning.plans.carry_over import carry_over
from autopipe.planning.plans.plan import Plan

Dataset = tf.data.Dataset


@pytest.mark.parametrize("text", [None, b"{}", 3])
def test_what_is_no_text_is_named(text):
    with pytest.raises(PlanError, match="it is a "):
        Plan.from_json(text)


def test_a_plan_replaces_the_one_that_was_there(tmp_path):
    path = tmp_path / "plan.json"
    Plan("one").save(path)
    Plan("two", knobs={"a": 1}, rules=("x",)).save(path)
    assert Plan.load(path) == Plan("two", knobs={"a": 1}, rules=("x",))
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]


def test_a_plan_that_was_there_keeps_who_may_read_it(tmp_path):
    file = tmp_path / "plan.json"
    Plan("ab12").save(file)
    file.chmod(0o640)
    Plan("cd34").save(file)
    assert (Plan.load(file).fingerprint, file.stat().st_mode & 0o777) == ("cd34", 0o640)


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
        ('"knobs": {"a": NaN}', "NaN is not a number"),
        ('"measured": {"after": -Infinity}', "-Infinity is not a number"),
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


def test_a_shuffle_of_all_there_is_is_read_again(tmp_path):
    dataset = tf.data.Dataset.range(9).shuffle(sys.maxsize).batch(2)
    plan = autopipe.optimize(dataset, seconds=0).plan
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json").knobs == plan.knobs
    assert autopipe.optimize(dataset, plan=tmp_path / "plan.json").knobs == plan.knobs
