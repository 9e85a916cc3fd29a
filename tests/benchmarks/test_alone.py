"""Work in a process of its own is done in another one, and its end is told."""

import multiprocessing
import os
import pickle

import pytest

from benchmarks.alone import run_alone
from benchmarks.cases._base import all_cases


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


def test_a_process_finds_a_case_by_its_name():
    for case in all_cases():
        assert pickle.loads(pickle.dumps(case)) is case
