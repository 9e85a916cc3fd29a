"""The offline search finds the best structure and numbers there are, and never leaves a pipeline worse."""

import contextlib
import itertools
import math
import sqlite3

import numpy as np
import pytest
import tensorflow as tf
from choosing import Bench, choices, of_buffers, waiting
from optuna.trial import TrialState
from programs import run_program

import autopipe
from autopipe.errors import ArgumentError, SearchError, StorageError
from autopipe.planning.costs.consumer import StandIn
from autopipe.search_spaces import default
from autopipe.tuning.offline.choices import Choices
from autopipe.tuning.offline.structures import AS_WRITTEN, OPTIMIZED
from autopipe.tuning.offline.tuning import tune, tune_choices
from autopipe.tuning.offline.workbench import TrialFailedError
from autopipe.tuning.studies import complete, open_study


def test_a_stage_that_waits_gets_the_calls_and_threads_it_needs(monkeypatch):
    # What is many times as fast has won by then, and is seen in a short turn.
    monkeypatch.setattr("autopipe.tuning.offline.tuning.TURN_SECONDS", 0.1)
    monkeypatch.setattr("autopipe.tuning.offline.session._MOST_FINAL_PAIRS", 5)
    monkeypatch.setattr("autopipe.tuning.offline.session._PAIRS_TO_STATE", 2)
    dataset = autopipe.optimize(waiting(), seconds=0)
    plan = tune(dataset, trials=3, seconds=60)
    assert plan.measured["after"] > 1.5
    assert plan.knobs == dataset.knobs
    # Of a pool without bounds, AUTOTUNE takes as many threads as it likes.
    calls, unbounded = (
        dataset.knobs[f"map[wait].{name}"] for name in ("num_parallel_calls", "use_unbounded_threadpool")
    )
    assert calls > 2 or (calls, unbounded) == (-1, 1)


def test_the_structure_is_searched_too_and_the_plan_is_that_of_the_best():
    written = tf.data.Dataset.range(64).map(lambda x: x + 1).batch(4)
    dataset = autopipe.optimize(written)
    others = {AS_WRITTEN: autopipe.optimize(written, rules=[])}
    found = Choices.of(dataset, default, others)
    before = dict(dataset.knobs)
    bench = Bench(lambda choice: 3.0 if choice.structure == AS_WRITTEN else 1.0)
    plan = tune_choices(found, StandIn(0.0), trials=3, seconds=30, workbench=bench)
    assert plan.rules == ()
    assert plan.measured["after"] == 3.0
    assert dataset.knobs == before


def test_what_does_not_win_leaves_the_pipeline_as_it_was():
    found = choices()
    before = dict(found.given.knobs)
    plan = tune_choices(found, StandIn(0.0), trials=5, seconds=30, workbench=Bench(lambda choice: 1.0))
    assert plan.knobs == before == found.datasets[OPTIMIZED].knobs
    assert plan.measured == {"objective": "speed", "trials": 5}


def test_a_search_that_is_interrupted_leaves_the_pipeline_as_it_was():
    class Interrupted(StandIn):
        def steps_per_second(self, dataset, seconds, *, whole_epochs=False):
            if dataset.knobs != before:
                raise KeyboardInterrupt
            return super().steps_per_second(dataset, seconds, whole_epochs=whole_epochs)

    found = of_buffers(1, 4)
    before = dict(found.given.knobs)
    with pytest.raises(KeyboardInterrupt):
        tune_choices(found, Interrupted(0.0), trials=9, seconds=60)
    assert found.datasets[OPTIMIZED].knobs == before


def test_a_trial_that_fails_is_a_failed_trial_and_not_the_end():
    class Failing(Bench):
        def pairs(self, reference, challenger):
            if challenger.knobs["prefetch.buffer_size"] == 1:
                raise TrialFailedError("it gave no answer")
            return super().pairs(reference, challenger)

    told = []
    bench = Failing(lambda choice: 1.0 + 0.1 * (choice.knobs["prefetch.buffer_size"] == 4))
    study = open_study(sampler="random", seed=3)
    plan = tune_choices(
        choices(), StandIn(0.0), trials=25, seconds=30, study=study, workbench=bench, on_trial=told.append
    )
    assert {trial.failure for trial in told} == {"", "it gave no answer"}
    assert plan.measured["trials"] == 25
    assert plan.knobs["prefetch.buffer_size"] == 4


@pytest.mark.timeout(60)
def test_a_search_none_of_whose_trials_comes_to_an_end_says_why_and_leaves_the_pipeline_as_it_was():
    class Failing(Bench):
        def pairs(self, reference, challenger):
            raise TrialFailedError("it gave no answer")

    found = choices()
    before = dict(found.given.knobs)
    with pytest.raises(SearchError, match="but all 5 failed, the last because it gave no answer. Mend that"):
        tune_choices(found, StandIn(0.0), trials=25, seconds=1e9, workbench=Failing(lambda choice: 1.0))
    assert found.datasets[OPTIMIZED].knobs == before


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 1), (1, 0)], ids=["first report", "second", "at the end"])
def test_a_trial_that_another_process_took_for_gone_is_a_failed_trial_and_not_the_end(before, after):
    class TakenForGone(Bench):
        def pairs(self, reference, challenger):
            yield from itertools.islice(super().pairs(reference, challenger), before)
            if not told:
                take()
            yield from itertools.islice(super().pairs(reference, challenger), after)

    def take():
        (running,) = study.get_trials(states=(TrialState.RUNNING,))
        study.tell(running.number, state=TrialState.FAIL)

    told = []
    study = open_study(pruner="none")
    bench = TakenForGone(lambda choice: 1.0)
    plan = tune_choices(
        choices(), StandIn(0.0), trials=2, seconds=30, study=study, workbench=bench, on_trial=told.append
    )
    assert [trial.failure for trial in told] == ["another process took this one for dead", "", ""]
    assert plan.measured["trials"] == 2


def as_written():
    return autopipe.optimize(waiting(), rules=(), seconds=0)


@pytest.mark.parametrize(
    ("begun", "here"),
    [
        pytest.param(lambda: of_buffers(1, 4), lambda: of_buffers(1, 8), id="another space"),
        pytest.param(
            lambda: of_buffers(1, 4, others={"a": as_written()}),
            lambda: of_buffers(1, 4, others={"a": as_written(), "b": as_written()}),
            id="other structures",
        ),
    ],
)
def test_a_study_that_began_with_other_choices_is_not_gone_on_with(begun, here):
    study = open_study()
    bench = Bench(lambda choice: 1.0)
    tune_choices(begun(), StandIn(0.0), trials=1, seconds=60, study=study, workbench=bench)
    tried = len(study.trials)
    with pytest.raises(ArgumentError, match=r"choices it began with, .* another name"):
        tune_choices(here(), StandIn(0.0), trials=9, seconds=60, study=study, workbench=bench)
    assert len(study.trials) == tried


def test_a_study_is_gone_on_with_by_who_chooses_among_the_same():
    study = open_study()
    for trials in (1, 2):
        tune_choices(
            of_buffers(1, 4), StandIn(0.0), trials=trials, seconds=60, study=study, workbench=Bench(lambda choice: 1.0)
        )
    assert complete(study) == 2


def test_pipelines_with_nothing_to_choose_or_no_elements_are_given_back():
    fixed = Choices(choices().datasets, {OPTIMIZED: {}})
    assert tune_choices(fixed, StandIn(0.0), seconds=5).measured == {}
    empty = autopipe.optimize(tf.data.Dataset.range(9).filter(lambda x: x > 99).batch(2), seconds=0)
    assert tune(empty, seconds=5).measured == {}


def test_a_storage_that_is_lost_between_trials_is_told_in_words(tmp_path):
    def lose(trial):
        with contextlib.closing(sqlite3.connect(tmp_path / "study.db")) as database:
            database.execute("DROP TABLE trial_params")

    with pytest.raises(StorageError, match=r"must be reachable .* no such table: trial_params.* continues from there"):
        tune_choices(
            choices(),
            StandIn(0.0),
            trials=5,
            study=open_study("lost", f"sqlite:///{tmp_path}/study.db"),
            workbench=Bench(lambda choice: 1.0),
            on_trial=lose,
        )


def test_trials_are_numbered_by_how_many_came_to_an_end_in_the_study(tmp_path):
    def fails_at_second(choice):
        if len(bench.compared) == 2:
            raise TrialFailedError("out of memory")
        return 1.0

    bench = Bench(fails_at_second)
    numbers = []
    for trials in (2, 3):
        tune_choices(
            choices(),
            StandIn(0.0),
            trials=trials,
            study=open_study("resumed", f"sqlite:///{tmp_path}/study.db", pruner="none"),
            workbench=bench,
            on_trial=lambda trial: numbers.append((trial.number, trial.failure)),
        )
    assert numbers == [(1, "out of memory"), (1, ""), (2, ""), (3, "")]


def test_the_best_of_all_numbers_is_found_in_forty_trials():
    found = choices()

    def speed(choice):
        knobs = choice.knobs
        calls = {-1: 1.0, 1: 0.5, 2: 1.0, 4: 1.5, 8: 2.0, 16: 3.0, 32: 2.95, 64: 2.9}[
            knobs["map[wait].num_parallel_calls"]
        ]
        return calls * (1.0 if knobs["prefetch.buffer_size"] > 1 else 0.9)

    plan = tune_choices(found, StandIn(0.0), trials=40, seconds=60, study=open_study(seed=1), workbench=Bench(speed))
    assert plan.measured["after"] >= 0.97 * 3.0 / speed(found.given)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"dataset": waiting()}, r"dataset must be what autopipe\.optimize\(\) returned"),
        ({"trials": -1}, "trials must be a whole number >= 0"),
        ({"seconds": "9"}, "seconds must be a number >= 0"),
        ({"step_seconds": math.inf}, "step_seconds must be a finite number >= 0"),
        ({"step_seconds": np.array([1, 2])}, "step_seconds must be a finite number >= 0"),
        ({"space": "huge"}, "A search space must be one of default"),
        ({"on_trial": 3}, "on_trial must be a function of a trial"),
        ({"model": "any", "step_seconds": 0.1}, "Give one of the two"),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
)
def test_arguments_that_break_their_law_are_named_before_anything_is_read(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        tune(**{"dataset": choices().datasets[OPTIMIZED], **arguments})


def test_a_tuned_dataset_is_gone_when_nobody_holds_it():
    """In a fresh process: what Optuna keeps, it keeps when it is first imported."""
    code = """
import gc, sys, weakref
import tensorflow as tf
import autopipe
from autopipe.tuning.offline.tuning import tune

def tuned():
    dataset = autopipe.optimize(tf.data.Dataset.range(64).batch(4), seconds=0)
    tune(dataset, trials=1, seconds=2)
    return weakref.ref(dataset)

sys.modules["redis"] = None
dataset = tuned()
gc.collect()
print("optuna" in sys.modules, dataset() is None)
"""
    assert run_program(code).split() == ["True", "True"]


def test_no_more_threads_are_tried_than_the_machine_has_left(monkeypatch):
    monkeypatch.setattr("autopipe.tuning.offline.choices.threads_left", lambda: 40)
    found = choices()
    study = open_study(seed=1)
    for parameters in found.to_try_first():
        study.enqueue_trial(parameters)
    for _ in range(20):
        trial = study.ask()
        chosen = found.ask(trial)
        assert chosen.knobs["thread_pool.size"] <= 10
        study.tell(trial, 1.0)
        assert found.of_trial(study.trials[trial.number]) == chosen
