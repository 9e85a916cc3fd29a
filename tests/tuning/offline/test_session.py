"""What a process does in a study: hopeless trials are short, each is told, and the best has to win again."""

import math
import time
from dataclasses import replace

import pytest
from choosing import Bench, choices, of_buffers
from optuna.trial import TrialState

from autopipe.tuning.offline.session import Session
from autopipe.tuning.offline.workbench import LocalWorkbench, Pair
from autopipe.tuning.studies import open_study, signed


def test_a_process_that_goes_on_marks_the_trial_of_one_that_was_killed_meanwhile():
    left = []

    def kill_another(trial):
        if not left:
            left.append(study.ask())
            with signed(left[0]):
                left[0].set_user_attr("autopipe:process", left[0].user_attrs["autopipe:process"] + "0")

    study = open_study()
    bench = Bench(lambda choice: 1.0)
    Session(choices(), choices().given, bench, study, kill_another).search(1, time.monotonic() + 30)
    assert study.trials[left[0].number].state is TrialState.FAIL


def test_a_hopeless_trial_has_one_turn():
    bench = Bench(lambda choice: 1.0 if choice == given else 0.5)
    found = choices()
    given = found.given
    session = Session(found, given, bench, open_study(seed=1))
    session.search(3, time.monotonic() + 30)
    assert len(bench.compared) == 3


def test_the_time_of_a_trial_is_that_of_its_own_turns():
    class Pausing:
        def __init__(self):
            self.seconds = 0.0

        def steps_per_second(self, dataset, seconds, *, whole_epochs=False):
            began = time.perf_counter()
            time.sleep(0.01 if dataset.knobs != given.knobs else 0.1)
            self.seconds += (time.perf_counter() - began) * (dataset.knobs != given.knobs)
            return 1.0

        def endless(self, dataset):
            return dataset

    told = []
    found, consumer = of_buffers(1, 4), Pausing()
    given = found.given
    session = Session(found, given, LocalWorkbench(found, consumer, 0.1), open_study(seed=1), told.append)
    session.search(1, time.monotonic() + 60)
    (trial,) = told
    assert trial.knobs
    assert consumer.seconds <= trial.seconds < consumer.seconds + 0.3


class Match:
    """Yields the ratios of a match."""

    def __init__(self, ratios):
        self.ratios_to_come = ratios
        self.played = 0

    def pairs(self, reference, challenger):
        for ratio in self.ratios_to_come:
            self.played += 1
            yield Pair(ratio, 0.0)


@pytest.mark.parametrize(
    ("ratios", "played", "won"),
    [
        ([3.1], 1, True),
        ([1.6, 1.6], 2, True),
        ([1.05] * 5, 5, True),
        ([1.05, 0.9] * 3 + [1.05] * 5, 11, True),
        ([0.9, 0.9], 2, False),
        ([1.4, 0.9, 0.9, 0.9], 4, False),
        ([1.1, 0.9] * 20, 21, False),
    ],
    ids=["clear", "clear twice", "steady", "steady in the end", "lost", "by chance", "undecided"],
)
def test_the_best_of_many_has_to_win_a_match_as_well(ratios, played, won):
    bench = Match(ratios)
    made = choices()
    session = Session(made, made.given, bench, open_study())
    assert bool(session._won_match(made.given, made.given, math.inf)) is won
    assert bench.played == played


def test_what_is_undecided_when_the_time_is_up_has_not_won():
    bench = Match([1.1] * 9)
    made = choices()
    assert not Session(made, made.given, bench, open_study())._won_match(made.given, made.given, 0.0)
    assert bench.played == 1


def test_the_best_few_are_compared_with_each_other_and_the_winner_with_what_was_given():
    """By chance the study has them in the wrong order."""
    made = choices()
    speeds = {2: 1.3, 4: 1.6, 8: 1.4}

    def speed(choice):
        return speeds.get(choice.knobs["map[wait].num_parallel_calls"] if choice != made.given else 0, 1.0)

    session = Session(made, made.given, Bench(speed), open_study())
    named = {
        calls: replace(made.given, knobs={**made.given.knobs, "map[wait].num_parallel_calls": calls})
        for calls in speeds
    }
    session._finalists = lambda: [named[8], named[4], named[2]]
    best, measured = session.final(math.inf)
    assert best == named[4]
    assert measured["after"] == 1.6
