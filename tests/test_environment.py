"""Where a process does not tell what it runs on, or which release, nothing fails."""

import os
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from autopipe import environment
from autopipe.environment import boot_id, processors, release


def test_a_checkout_that_is_not_installed_has_no_release(monkeypatch):
    def none(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(environment, "version", none)
    assert release() is None


def test_a_kernel_need_not_tell_when_it_was_started(monkeypatch):
    def unreadable(path):
        raise PermissionError(path)

    monkeypatch.setattr(Path, "read_text", unreadable)
    assert boot_id() == ""


def test_processors_are_those_that_are_left_to_the_process():
    assert processors() == len(os.sched_getaffinity(0))
