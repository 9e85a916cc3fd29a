"""Whose code raised what a command ends with."""

import json
import site

import pytest

from autopipe.cli._failures import _is_installed


@pytest.mark.parametrize(
    ("file", "installed"),
    [
        (json.__file__, True),
        (pytest.__file__, True),
        (f"{site.getusersitepackages()}/optuna/study.py", True),
        ("numpy/random/mtrand.pyx", True),
        ("<frozen runpy>", True),
        ("/home/somebody/train.py", False),
    ],
)
def test_a_library_is_told_from_the_users_files(file, installed):
    assert _is_installed(file) is installed
