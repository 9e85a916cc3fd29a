"""What is the same in many branches is told once."""

import pytest
import tensorflow as tf

import autopipe
from autopipe import Plan
from autopipe.pipeline.extract import extract
from autopipe.planning.plans.fingerprint import fingerprint

Dataset = tf.data.Dataset


def test_steps_and_findings_of_branches_that_are_alike_stand_once_and_are_counted():
    branches = [Dataset.range(100).take(-1).shuffle(20).repeat() for _ in range(6)]
    explanation = autopipe.optimize(Dataset.sample_from_datasets(branches).batch(4), seconds=0).explain()
    text = str(explanation)
    assert "  1-6. drop_idle_stage  keeps sequence" in text
    assert "  7. draw_many_choices" in text
    assert "  8. prefetch_at_end" in text
    assert text.count("AP108") == 1
    assert "AP108  at shuffle(20) at 6 places" in text
    told = explanation.to_dict()
    assert len(told["steps"]) == 8
    assert [finding["code"] for finding in told["findings"]].count("AP108") == 6


def test_unset_knobs_are_those_of_the_dataset_also_where_its_author_chose_the_threads():
    options = tf.data.Options()
    options.threading.private_threadpool_size = 3
    for written in (Dataset.range(9).batch(2), Dataset.range(9).batch(2).with_options(options)):
        dataset = autopipe.optimize(written, seconds=0)
        assert dataset.explain().unset == dataset.knobs


def test_a_single_step_and_a_single_finding_are_not_counted():
    text = str(autopipe.optimize(Dataset.range(100).take(-1).shuffle(20), seconds=0).explain())
    assert "  1. drop_idle_stage  keeps sequence" in text
    assert "places" not in text


def test_the_speed_of_the_whole_is_told_or_why_it_was_not_measured():
    random = Dataset.random(seed=1, rerandomize_each_iteration=True).take(100)
    told = autopipe.optimize(random.take(-1), seconds=1).explain()
    lines = [line.strip() for line in str(told).splitlines()]
    assert lines[lines.index("As a whole") + 1].startswith(
        "not known: a run could be noticed, since autopipe cannot see"
    )
    assert told.to_dict()["whole"].startswith("not known: a run could be noticed")


def test_what_the_refusals_say_of_measuring_is_not_said_again_of_the_whole():
    assert "As a whole" not in str(autopipe.optimize(Dataset.range(100).map(abs).batch(2), seconds=0).explain())


def test_sides_that_are_left_as_they_are_for_the_same_reason_are_told_once():
    def side():
        return tf.data.Dataset.range(9).map(lambda x: tf.random.uniform([2])).cache().batch(3)

    text = str(autopipe.optimize(tf.data.Dataset.zip((side(), side())), seconds=0).explain())
    assert text.count("Left as it is") == 1
    assert "cache() at 2 places, and all before it: what it holds was drawn" in " ".join(text.split())


def said(dataset, **arguments):
    """Return what the account of an optimized dataset says, on one line."""
    return " ".join(str(autopipe.optimize(dataset, seconds=0, **arguments).explain()).split())


class TestNothingIsChanged:
    """Why no rule changed a pipeline, and what becomes of it."""

    def test_no_rule_has_anything_to_change(self):
        told = said(Dataset.range(9).batch(2), rules=[])
        assert "nothing: no rule was applied, so it runs as it was written" in told

    def test_all_that_rules_would_do_is_refused(self):
        told = said(Dataset.range(9).map(lambda x: x + 1).batch(2), rules=["vectorize_map"])
        assert "nothing: what rules would do is refused below, so it runs as it was written" in told
        assert "Refused vectorize_map" in told

    def test_numbers_alone_are_changed(self):
        written = Dataset.range(9).batch(2).prefetch(3)
        plan = Plan(fingerprint(extract(written)), knobs={"prefetch.buffer_size": 7})
        told = said(written, plan=plan)
        assert "nothing: no rule was applied, so it runs with other numbers, under Knobs" in told
        assert "prefetch.buffer_size = 7" in told

    def test_numbers_are_changed_while_it_runs(self):
        dataset = autopipe.optimize(Dataset.range(9).batch(2).prefetch(3), rules=[], seconds=0)
        dataset.retune({"prefetch.buffer_size": 5})
        assert "so it runs with other numbers, under Knobs" in " ".join(str(dataset.explain()).split())


def test_threads_that_are_left_to_tensorflow_are_said_to_be_its_own():
    names = ("thread_pool.size", "thread_pool.max_intra_op_parallelism")
    written = Dataset.range(9).batch(2)
    told = said(written, plan=Plan(fingerprint(extract(written)), knobs=dict.fromkeys(names, 0)))
    assert all(f"{name} = TensorFlow's own" in told for name in names)


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        ({}, "nothing was measured with them, on"),
        ({"objective": "speed", "trials": 2}, "2 trials found nothing faster, on"),
        ({"objective": "speed", "trials": 1}, "1 trial found nothing faster, on"),
        ({"objective": "speed", "trials": 2, "before": 1, "after": 2}, "measured speed 1 -> 2, on"),
    ],
)
def test_a_plan_tells_what_its_numbers_are_from(measured, words):
    written = Dataset.range(9).batch(2)
    assert f"numbers: {words}" in said(written, plan=Plan(fingerprint(extract(written)), measured=measured))


def test_an_account_that_ends_a_cell_of_a_notebook_is_shown_as_it_is_printed():
    account = autopipe.explain(Dataset.range(999).batch(2), seconds=0.2, measuring_seconds=0)
    assert repr(account) == str(account)
    assert repr(account).splitlines()[0] == account.diagnosis.verdict
    assert repr(account.diagnosis.profile).splitlines()[1].split()[0] == "Stage"
