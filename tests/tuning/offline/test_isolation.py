"""A trial in a process of its own measures as one here does, and says how it ended where it did not."""

import functools
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest
import tensorflow as tf

import autopipe
from autopipe.planning.costs.consumer import StandIn
from autopipe.search_spaces import default
from autopipe.tuning.offline import isolation
from autopipe.tuning.offline.choices import Choice, Choices
from autopipe.tuning.offline.isolation import IsolatedWorkbench, Job
from autopipe.tuning.offline.structures import OPTIMIZED
from autopipe.tuning.offline.workbench import TrialFailedError


def make_choices():
    return Choices.of(autopipe.optimize(tf.data.Dataset.range(4000).batch(4), seconds=0), default)


def make_crashing():
    os.kill(os.getpid(), signal.SIGKILL)


def make_hanging():
    time.sleep(60)


def make_raising():
    raise ValueError("no data")


def make_printing():
    print("to the output")
    return make_choices()


def isolated(make, timeout=60.0):
    return IsolatedWorkbench(Job(make, functools.partial(StandIn, 0.0), seconds=0.1, pairs=2), timeout)


def test_an_isolated_trial_measures_in_another_process():
    given = make_choices().given
    pair = next(isolated(make_choices).pairs(given, given))
    assert min(pair.ratio, pair.seconds) > 0


@pytest.mark.parametrize(
    ("make", "timeout", "words"),
    [
        (make_crashing, 60.0, "its process was killed by SIGKILL, as the system does when memory runs out"),
        (make_hanging, 0.5, "it gave no answer within 0.5 seconds"),
        (make_raising, 60.0, "it raised ValueError: no data"),
    ],
)
def test_an_isolated_trial_that_crashes_hangs_or_raises_says_so(make, timeout, words):
    given = Choice(OPTIMIZED, {})
    with pytest.raises(TrialFailedError, match=words):
        next(isolated(make, timeout).pairs(given, given))


SEARCHING = """
import functools, os, sys, time
from autopipe.planning.costs.consumer import StandIn
from autopipe.tuning.offline.choices import Choice
from autopipe.tuning.offline.isolation import IsolatedWorkbench, Job

def hang():
    print(os.getpid(), file=sys.stderr, flush=True)
    time.sleep(600)

if __name__ == "__main__":
    job = Job(hang, functools.partial(StandIn, 0.0), seconds=0.1, pairs=1)
    next(IsolatedWorkbench(job, 600.0).pairs(Choice("optimized", {}), Choice("optimized", {})))
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_who_ends_the_search_leaves_no_trial_behind(tmp_path, sign):
    program = tmp_path / "searching.py"
    program.write_text(SEARCHING)
    with subprocess.Popen([sys.executable, program], stderr=subprocess.PIPE, text=True) as search:
        trial = psutil.Process(next(int(line) for line in search.stderr if line.strip().isdigit()))
        search.send_signal(sign)
        search.wait()
    _, left = psutil.wait_procs([trial], timeout=30)
    assert not left


def test_what_is_printed_in_an_isolated_trial_is_not_put_into_the_output(monkeypatch, capsys):
    monkeypatch.setattr(isolation.signal, "signal", lambda *_: None)
    job = Job(make_printing, functools.partial(StandIn, 0.0), seconds=0.05, pairs=1)
    given, answers = make_choices().given, []
    isolation._compare(job, given, given, SimpleNamespace(send=answers.append))
    printed = capsys.readouterr()
    assert len(answers[0]) == 1
    assert "to the output" not in printed.out
    assert "to the output" in printed.err
