"""A process that takes part in a study: ``python study_worker.py STORAGE TRIALS SECONDS_OF_A_TURN``.

What it compares is made up, so that it needs no TensorFlow: the best setting is known.
"""

import json
import sys
import time
from dataclasses import dataclass

from optuna.storages.journal import JournalFileSymlinkLock

from autopipe.tuning.offline.choices import Choice
from autopipe.tuning.offline.session import Session
from autopipe.tuning.offline.workbench import Pair
from autopipe.tuning.studies import complete, open_study, quiet_optuna

CALLS = (1, 2, 4, 8, 16)
BUFFERS = (1, 2, 4, 8)
BEST = Choice("made up", {"calls": 8, "buffer": 4})


class MadeUpChoices:
    """Two numbers; stands in for those of a pipeline."""

    given = Choice("made up", {"calls": 1, "buffer": 1})

    def ask(self, trial):
        return Choice(
            "made up",
            {
                "calls": trial.suggest_categorical("calls", CALLS),
                "buffer": trial.suggest_categorical("buffer", BUFFERS),
            },
        )

    def refuse_other_choices(self, study):
        """There are no others."""

    def of_trial(self, trial):
        return Choice("made up", dict(trial.params))

    def to_try_first(self):
        return [{"calls": 16, "buffer": 2}]


def speed(choice):
    return 1 + CALLS.index(choice.knobs["calls"]) % 4 + 0.1 * (BUFFERS.index(choice.knobs["buffer"]) % 3)


@dataclass
class MadeUpBench:
    """Says how fast a setting is after so many seconds."""

    seconds: float

    def pairs(self, reference, challenger):
        while True:
            time.sleep(self.seconds)
            yield Pair(speed(challenger) / speed(reference), self.seconds)


def session(storage, seconds):
    study = open_study("shared", storage, seed=None)
    return Session(MadeUpChoices(), MadeUpChoices.given, MadeUpBench(seconds), study)


def give_up_locks_of_the_dead_soon(setattr_=setattr):
    """Wait 3 seconds for the lock of a journal that a process held when it was killed; Optuna waits half a minute."""
    setattr_(JournalFileSymlinkLock.__init__, "__defaults__", (3,))


if __name__ == "__main__":
    _, storage, trials, seconds = sys.argv
    give_up_locks_of_the_dead_soon()
    with quiet_optuna():
        run = session(storage, float(seconds))
        print("ready", flush=True)
        run.search(int(trials), time.monotonic() + 60)
        chosen, found = run.final(time.monotonic() + 10)
    print(json.dumps({"knobs": chosen.knobs, "after": found["after"], "complete": complete(run.study)}))
