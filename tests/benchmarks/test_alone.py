"""Work in a process of its own is done in another one, and its end is told."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from benchmarks.alone import run_alone
from benchmarks.cases._base import all_cases

ROOT = Path(__file__).parents[2]
WAITING = """
from benchmarks.alone import run_alone
from tests.benchmarks.test_alone import tell_and_wait

if __name__ == "__main__":
    run_alone(tell_and_wait, {!r})
"""


def tell_and_wait(file):
    Path(file).write_text(str(os.getpid()))
    time.sleep(300)


def double_in_a_child(number):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return os.getpid(), pool.apply(int.__mul__, (number, 2))


def test_the_process_is_another_one_and_may_start_its_own():
    process, doubled = run_alone(double_in_a_child, 21)
    assert process != os.getpid()
    assert doubled == 42


def test_what_goes_wrong_there_is_raised_here():
    with pytest.raises(ZeroDivisionError):
        run_alone(int.__floordiv__, 1, 0)


def test_it_ends_with_the_process_that_waits_for_it(tmp_path):
    script, told = tmp_path / "script.py", tmp_path / "told"
    script.write_text(WAITING.format(str(told)))
    with subprocess.Popen([sys.executable, script], env={**os.environ, "PYTHONPATH": str(ROOT)}) as parent:
        while not told.exists() or not told.read_text():
            assert parent.poll() is None
            time.sleep(0.1)
        child = psutil.Process(int(told.read_text()))
        parent.send_signal(signal.SIGKILL)
    child.wait(30)


def test_a_process_finds_a_case_by_its_name():
    for case in all_cases():
        assert pickle.loads(pickle.dumps(case)) is case
