"""Bad input ends in one clear error that names the remedy and loses nothing."""

import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.errors import ArgumentError, AutopipeError, DatasetError, KnobError, PlanError
from autopipe.planning.plans.plan import Plan

Dataset = tf.data.Dataset


def double(x):
    return x * 2


def triple(x):
    return x * 3


@pytest.mark.parametrize("given", [None, [1, 2], np.arange(3), "train"])
def test_what_is_not_a_dataset_is_named(given):
    with pytest.raises(DatasetError, match=f"but received {type(given).__name__}. Make one with"):
        autopipe.optimize(given)


def test_what_is_wrong_with_a_dataset_is_no_mistake_of_types_in_the_program():
    """A file pattern that matches nothing must not be taken for one."""
    assert issubclass(DatasetError, ValueError)
    assert not issubclass(DatasetError, TypeError)


@pytest.mark.parametrize("empty", [Dataset.range(0), Dataset.range(9).take(0).map(double).batch(2)])
def test_an_empty_dataset_is_refused(empty):
    with pytest.raises(DatasetError, match="must have elements.*a file pattern that matches nothing"):
        autopipe.optimize(empty)


def test_a_dataset_of_a_program_without_eager_execution_is_refused():
    with tf.Graph().as_default(), pytest.raises(DatasetError, match="made while eager execution was off.*TensorFlow 2"):
        autopipe.optimize(Dataset.range(4))


def test_a_dataset_made_inside_a_tf_function_is_refused():
    def made():
        return autopipe.optimize(Dataset.range(3)).reduce(tf.constant(0, tf.int64), tf.add)

    with pytest.raises(DatasetError, match="received one made inside a tf.function.*training script calls fit"):
        tf.function(made)()


@pytest.mark.parametrize("read", [autopipe.optimize, autopipe.explain, autopipe.profile])
def test_a_call_inside_a_tf_function_is_refused(read):
    dataset = Dataset.range(3)
    with pytest.raises(DatasetError, match="was called inside a tf.function.*training script calls fit"):
        tf.function(lambda: read(dataset) and 0)()


def failing_on(bad):
    def check(x):
        tf.debugging.assert_none_equal(x, tf.constant(bad, tf.int64), message="bad element")
        return tf.reshape(tf.cast(x, tf.float32), [1])

    return check


def always_failing(path):
    return tf.io.decode_jpeg(path)


@pytest.mark.parametrize(
    ("empty", "culprit"),
    [
        (Dataset.range(0).map(tf.square).batch(2), "range(0, 0)"),
        (Dataset.range(20).batch(64, drop_remainder=True).prefetch(1), "batch(64, drop_remainder=True)"),
    ],
)
def test_of_a_dataset_without_elements_the_stage_is_told_that_gives_none(empty, culprit):
    with pytest.raises(DatasetError, match=re.escape(f"the one received is empty: {culprit} gives none")):
        autopipe.optimize(empty)


def test_a_function_that_always_raises_is_shown_with_its_error_and_the_remedy():
    dataset = Dataset.from_tensor_slices(["a", "b"]).cache().map(always_failing)
    with pytest.raises(DatasetError, match="every one tried in .*always_failing.* raised: .*Fix the function"):
        autopipe.optimize(dataset)


@pytest.mark.usefixtures("as_fast")
def test_where_every_element_fails_no_file_of_a_cache_is_written_to_find_that_out(tmp_path):
    failing = Dataset.range(20).map(
        lambda x: tf.debugging.check_numerics(tf.math.log(-1.0 - tf.cast(x, tf.float32)), "")
    )
    with pytest.raises(DatasetError, match="every one tried in .* raised"):
        autopipe.optimize(failing.shuffle(20).cache(str(tmp_path / "kept")).map(double))
    assert not [*tmp_path.iterdir()]


def test_how_long_optimize_would_measure_is_judged_by_the_name_it_has_here():
    with pytest.raises(ArgumentError, match="measuring_seconds must be a number >= 0, but got -1"):
        autopipe.explain(Dataset.range(3), measuring_seconds=-1)
    assert autopipe.explain(Dataset.range(3).map(double), measuring_seconds=0).plan


def test_one_bad_element_among_good_ones_fails_where_it_did_and_the_others_are_kept():
    dataset = autopipe.optimize(Dataset.range(6).cache().map(failing_on(3)), keeps="sequence")
    assert [step.rule for step in dataset.explain().rewriting.steps] != []
    good = []
    iterator = iter(dataset)
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad element"):
        for element in iterator:
            good.append(int(element[0]))
    assert good == [0, 1, 2]
    assert [int(element[0]) for element in dataset.ignore_errors()] == [0, 1, 2, 4, 5]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"keeps": "all"}, 'keeps must be one of "training", "elements", "sequence", but got \'all\''),
        ({"keeps": None}, "but got None"),
        ({"ram_budget": -1}, "ram_budget must be a number of bytes >= 0, but got -1"),
        ({"ram_budget": "2GB"}, "but got '2GB'"),
        ({"plan": 5}, "plan must be a plan, or the path of one, but got 5"),
        ({"disk_cache": 5}, "disk_cache must be the path of a folder, but got 5"),
        ({"disk_cache": ""}, "disk_cache must be the path of a folder, but got ''"),
        ({"rules": 5}, "rules must be the names of rules, but got 5"),
        ({"rules": [[1]]}, "A rule must be one of .*, but got .1."),
        ({"seconds": "long"}, "seconds must be a number >= 0, but got 'long'"),
        ({"rules": ["faster"]}, "A rule must be one of .*vectorize_map, .*, but got 'faster'"),
    ],
)
def test_a_wrong_argument_is_named(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        autopipe.optimize(Dataset.range(3), **arguments)


@pytest.mark.parametrize("seconds", [0.1, -1, float("nan"), float("inf"), "3", False, True])
def test_how_long_to_explain_is_judged_before_anything_is_measured(monkeypatch, seconds):
    monkeypatch.setattr("autopipe.api._measurements", None)
    with pytest.raises(ArgumentError, match=r"seconds, where they are not 0, must be a finite number >= 0\.2"):
        autopipe.explain(Dataset.range(3), seconds=seconds)


def test_only_the_rules_that_were_named_are_used():
    dataset = autopipe.optimize(Dataset.range(9).cache().map(double).batch(2), rules=["prefetch_at_end"])
    assert dataset.plan.rules == ("prefetch_at_end",)


def plan_of(dataset, tmp_path, **changes):
    path = tmp_path / "plan.json"
    autopipe.optimize(dataset, seconds=0).plan.save(path)
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(content))
    return path


def test_a_plan_is_applied_to_the_same_pipeline_made_anew(tmp_path):
    def make():
        return Dataset.range(20).cache().map(double).batch(2)

    first = autopipe.optimize(make(), rules=["cache_after_map", "prefetch_at_end"])
    first.retune({"prefetch.buffer_size": 7})
    first.plan.save(tmp_path / "plan.json")

    again = autopipe.optimize(make(), plan=tmp_path / "plan.json")

    assert again.plan.rules == first.plan.rules
    assert again.knobs == first.knobs
    assert list(again.as_numpy_iterator())[3].tolist() == [12, 14]


def test_a_plan_of_another_pipeline_is_refused(tmp_path):
    path = plan_of(Dataset.range(9).map(double), tmp_path)
    with pytest.raises(PlanError, match="must be for this pipeline.*autopipe tune"):
        autopipe.optimize(Dataset.range(9).map(triple), plan=path)


def test_a_plan_with_an_unknown_knob_is_refused(tmp_path):
    path = plan_of(Dataset.range(9).map(double), tmp_path, knobs={"warp.speed": 9})
    with pytest.raises(KnobError, match="A knob must be one of .*, but got 'warp.speed'.* a number of the plan: take"):
        autopipe.optimize(Dataset.range(9).map(double), plan=path, seconds=0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not json", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", "it holds a list"),
        ('{"schema": 99, "fingerprint": "x"}', "its schema is 99"),
        ('{"schema": 1}', "it has no fingerprint"),
        ('{"schema": 1, "fingerprint": "x", "run": "rm"}', "unknown field 'run'"),
        ('{"schema": 1, "fingerprint": "x", "rules": "all"}', "its rules is a str"),
        ('{"schema": 1, "fingerprint": "x", "knobs": {"a": "b"}}', "not all whole numbers"),
    ],
)
def test_a_damaged_plan_is_refused_with_the_reason(text, words, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(PlanError, match=f"{words}.*Make a new one with: autopipe tune"):
        autopipe.optimize(Dataset.range(3), plan=path)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"places": (1,)}, "in the plan given its places are 1, and not one for each of its 0 rules"),
        ({"rules": None}, "in the plan given its rules is a NoneType"),
        ({"rules": ("prefetch_at_end",), "places": ("last",)}, "its places are not all whole numbers"),
        ({"knobs": [1]}, "its knobs is a list"),
        ({"schema": 99}, "its schema is 99"),
    ],
)
@pytest.mark.parametrize("read", [autopipe.optimize, autopipe.explain])
def test_a_plan_made_by_hand_is_judged_as_one_in_a_file(read, fields, words):
    dataset = Dataset.range(9).map(double)
    fingerprint = autopipe.optimize(dataset, seconds=0).plan.fingerprint
    with pytest.raises(PlanError, match=f"{words}.*Make a new one with: autopipe tune"):
        read(dataset, plan=Plan(fingerprint, **fields))


def test_a_plan_made_by_hand_may_hold_numbers_of_numpy():
    dataset = Dataset.range(9).map(double)
    fingerprint = autopipe.optimize(dataset, seconds=0).plan.fingerprint
    plan = Plan(fingerprint, knobs={"thread_pool.size": np.int64(3)})
    assert autopipe.optimize(dataset, plan=plan).knobs["thread_pool.size"] == 3


def test_a_plan_that_is_not_there_is_named(tmp_path):
    with pytest.raises(PlanError, match="must be a readable text file, but .*nowhere.json"):
        autopipe.optimize(Dataset.range(3), plan=tmp_path / "nowhere.json")


def test_every_error_is_an_autopipe_error():
    for name in autopipe.errors.__all__:
        assert issubclass(getattr(autopipe.errors, name), AutopipeError)


def test_a_pipeline_is_not_run_where_python_code_would_notice():
    ran = []

    def numbers():
        ran.append(1)
        yield 1

    made = Dataset.from_generator(numbers, output_signature=tf.TensorSpec((), tf.int64)).cache().map(double).batch(1)
    account = autopipe.explain(made)
    assert not ran
    assert "a run on a sample could be noticed, since the generator runs Python code (PyFunc)" in str(account)


def test_it_says_that_stages_were_not_timed_since_python_code_would_notice_and_how_to_time_them():
    def numbers():
        yield from range(9)

    made = Dataset.from_generator(numbers, output_signature=tf.TensorSpec((), tf.int64)).map(double).batch(1)
    account = autopipe.explain(made)
    assert "Not timed" in str(account)
    assert "with seconds=2" in str(account)
    assert account.to_dict()["not_timed"] == "the generator runs Python code (PyFunc)"
    for seconds in (0, 0.2):
        assert "Not timed" not in str(autopipe.explain(made, seconds=seconds))


def test_a_consumer_that_is_a_model_is_told_how_to_be_one():
    with pytest.raises(ArgumentError, match=r"consumer must take elements in steps, .*ModelSteps\(model\)"):
        autopipe.explain(tf.data.Dataset.range(9), consumer=keras.Sequential([keras.layers.Dense(1)]))


def test_a_consumer_that_is_the_class_of_one_is_told_to_be_made():
    with pytest.raises(ArgumentError, match=r"consumer must take elements in steps, .*ModelSteps\(model\)"):
        autopipe.explain(tf.data.Dataset.range(9), consumer=autopipe.ModelSteps)


def test_what_holds_for_several_refused_rules_is_said_once():
    told = str(autopipe.optimize(Dataset.range(9).map(lambda x: x * 2).batch(4), seconds=0).explain())
    assert told.count("optimize(seconds=0) leaves no time for that") == 1
    assert "vectorize_map, vectorize_rest" in " ".join(told.split())


@pytest.mark.parametrize("folder", ["gs://bucket/cache", "s3://bucket", "", 5, b"bytes", "a\0b"])
def test_a_disk_cache_is_a_folder_of_this_machine(folder):
    with pytest.raises(ArgumentError, match="disk_cache must be"):
        autopipe.optimize(tf.data.Dataset.range(5), disk_cache=folder, seconds=0)


def test_a_disk_cache_may_lie_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    autopipe.optimize(tf.data.Dataset.range(5), disk_cache="~/cache", seconds=0)
    assert (tmp_path / "cache").is_dir()


@pytest.mark.parametrize(
    "look",
    [
        lambda dataset: autopipe.profile(dataset, seconds=0.2),
        lambda dataset: autopipe.explain(dataset, seconds=0.2),
        lambda dataset: list(autopipe.optimize(dataset)),
    ],
    ids=["profile", "explain", "optimize"],
)
def test_who_looks_at_an_optimized_dataset_draws_none_of_the_orders_of_its_seed(look):
    def optimized():
        return autopipe.optimize(tf.data.Dataset.range(10).shuffle(10, seed=1).map(lambda x: x + 1), seconds=0)

    left_alone, looked_at = optimized(), optimized()
    look(looked_at)
    for _epoch in range(2):
        assert list(map(int, looked_at)) == list(map(int, left_alone))
