"""What takes long is shown at a terminal, and nowhere else."""

import io
import multiprocessing
import sys
import time

import pytest
import tensorflow as tf

import autopipe
from autopipe.optimizer import Rewriting
from autopipe.report.waiting import shown_if_long

ERASED = "\x1b[2K"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def at_terminal(monkeypatch):
    """To be called in the test: pytest sets standard error anew once fixtures are made."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def wait_for(text, terminal):
    end = time.perf_counter() + 20.0
    while text not in terminal.getvalue() and time.perf_counter() < end:
        time.sleep(0.01)


def test_what_takes_long_is_shown_and_gone_at_the_end(monkeypatch):
    terminal = at_terminal(monkeypatch)
    with shown_if_long("counting [all] of it", after=0.01):
        wait_for("0:00:00", terminal)
        assert "counting [all] of it" in terminal.getvalue()
    assert ERASED in terminal.getvalue().rpartition("counting")[2]


def test_what_is_over_soon_is_not_shown(monkeypatch):
    terminal = at_terminal(monkeypatch)
    with shown_if_long("counting", after=5.0):
        pass
    assert terminal.getvalue() == ""


def test_an_error_passes_and_ends_it(monkeypatch):
    terminal = at_terminal(monkeypatch)
    with pytest.raises(ValueError, match="wrong"), shown_if_long("counting", after=0.01):
        wait_for("0:00:00", terminal)
        raise ValueError("wrong")
    assert ERASED in terminal.getvalue().rpartition("counting")[2]


def test_nothing_is_shown_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with shown_if_long("counting", after=0.01):
        time.sleep(0.1)
    assert sys.stderr.getvalue() == ""


def test_a_process_beside_that_of_the_user_shows_nothing(monkeypatch):
    terminal = at_terminal(monkeypatch)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: object())
    with shown_if_long("counting", after=0.01):
        time.sleep(0.1)
    assert terminal.getvalue() == ""


def test_optimize_says_that_it_measures_where_that_takes_long(monkeypatch):
    terminal = at_terminal(monkeypatch)

    def slow_plan(tree, *_, **__):
        wait_for("autopipe measures the pipeline on its own elements", terminal)
        return Rewriting(tree, tree, (), ())

    monkeypatch.setattr("autopipe.api.make_plan", slow_plan)
    autopipe.optimize(tf.data.Dataset.range(20).batch(4))
    assert "autopipe measures the pipeline on its own elements" in terminal.getvalue()
