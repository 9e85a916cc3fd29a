"""All who search one study choose among the same pipelines, whatever each of them would find by measuring."""

from concurrent.futures import ThreadPoolExecutor

import optuna
import pytest
import tensorflow as tf

import autopipe
from autopipe.errors import ArgumentError, StorageError
from autopipe.planning.plans.plan import Plan
from autopipe.tuning.offline import agreement
from autopipe.tuning.offline.agreement import Agreement, agreed_pipelines
from autopipe.tuning.offline.structures import AS_WRITTEN, OPTIMIZED
from autopipe.tuning.studies import complete, open_study


def double(x):
    return tf.cast(x, tf.float32) * 2


def written():
    return tf.data.Dataset.range(640).map(double).batch(16)


def agreed(study, dataset=None, keeps="training", numbers_only=False, **given):
    return agreed_pipelines(study, dataset or written(), keeps=keeps, numbers_only=numbers_only, **given)


@pytest.fixture
def one_structure(monkeypatch):
    """To measure others takes seconds."""
    monkeypatch.setattr(agreement, "structures", lambda dataset: {OPTIMIZED: dataset})


def test_who_comes_later_takes_what_the_first_found_whatever_it_would_find(monkeypatch):
    study = open_study()
    first = agreed(study)
    monkeypatch.setattr(agreement, "structures", lambda dataset: pytest.fail("it was measured anew"))
    again = agreed(study)
    assert list(again) == list(first)
    assert {AS_WRITTEN, OPTIMIZED} <= set(first)
    assert [each.plan.rules for each in again.values()] == [each.plan.rules for each in first.values()]
    assert [each.knobs for each in again.values()] == [each.knobs for each in first.values()]


def test_who_found_others_at_the_same_time_takes_those_of_the_first(monkeypatch):
    study = open_study()

    def come_second(dataset):
        Agreement("training", False, "", {OPTIMIZED: autopipe.optimize(written(), rules=[]).plan}).propose(study)
        return {OPTIMIZED: dataset}

    monkeypatch.setattr(agreement, "structures", come_second)
    (name, only), *others = agreed(study).items()
    assert (name, only.plan.rules, others) == (OPTIMIZED, (), [])


@pytest.mark.parametrize("storage", ["sqlite:///study.db", "journal:study.log"])
def test_of_many_who_propose_at_once_all_take_the_same(tmp_path, monkeypatch, storage):
    monkeypatch.chdir(tmp_path)
    open_study("shared", storage)

    def propose(number):
        return Agreement("training", True, "", {OPTIMIZED: Plan(f"{number}")}).propose(open_study("shared", storage))

    with ThreadPoolExecutor(8) as at_once:
        taken = list(at_once.map(propose, range(8)))
    assert taken == [taken[0]] * 8


def test_what_is_agreed_on_is_no_trial_that_counts(one_structure):
    study = open_study()
    agreed(study)
    assert complete(study) == 0
    assert [trial.state for trial in study.trials] == [optuna.trial.TrialState.FAIL]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"dataset": tf.data.Dataset.range(640).map(lambda x: x - 1).batch(16)}, "must go on with the pipeline it"),
        ({"keeps": "sequence"}, "with --keeps training, but got --keeps sequence. Take a study of another name"),
        ({"numbers_only": True}, "with --keeps training, but got --keeps training --numbers-only."),
        ({"consumer": "--step-ms 5"}, "with --keeps training, but got --keeps training --step-ms 5."),
    ],
    ids=["pipeline", "promise", "numbers only", "consumer"],
)
def test_another_search_than_the_study_began_with_is_refused(other, words, one_structure):
    study = open_study()
    agreed(study)
    with pytest.raises(ArgumentError, match=words):
        agreed(study, **other)


def test_a_rule_that_this_release_does_not_know_is_refused():
    study = open_study()
    plan = autopipe.optimize(written(), rules=[]).plan
    Agreement("training", False, "", {OPTIMIZED: Plan(plan.fingerprint, rules=("of_tomorrow",))}).propose(study)
    with pytest.raises(ArgumentError, match="the rules it began with, but this release has no of_tomorrow"):
        agreed(study)


def test_a_storage_that_is_gone_is_told_in_words(tmp_path):
    study = open_study("shared", f"sqlite:///{tmp_path}/study.db")
    (tmp_path / "study.db").write_bytes(b"no database")
    with pytest.raises(StorageError, match="must be reachable"):
        agreed(study)
