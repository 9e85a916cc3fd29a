"""Whose code raised what a command ends with."""

import contextlib
import json
import site

import keras
import optuna
import pytest
import tensorflow as tf

import autopipe
from autopipe.cli._failures import _is_installed, _is_users, save_plan
from autopipe.errors import PlanError
from autopipe.planning.plans.plan import Plan


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


OURS, KERAS, STUDY = autopipe.__file__, keras.__file__, optuna.__file__
MODEL = f"{site.getusersitepackages()}/models/loss.py"
DRIVER = pytest.__file__


@pytest.mark.parametrize(
    ("files", "users"),
    [
        ((OURS, MODEL), True),
        ((OURS, KERAS, contextlib.__file__, MODEL), True),
        ((OURS, tf.__file__), True),
        ((OURS, "/home/somebody/train.py", STUDY), True),
        ((OURS,), False),
        ((OURS, contextlib.__file__, "numpy/random/mtrand.pyx"), False),
        ((OURS, STUDY, contextlib.__file__, DRIVER), False),
        ((OURS, KERAS, OURS), False),
    ],
)
def test_an_error_is_the_users_where_what_autopipe_called_is_theirs_installed_or_not(files, users):
    assert _is_users(list(files)) is users


def test_a_plan_is_printed_where_its_folder_went_away_meanwhile(tmp_path, capsys):
    plan = Plan("ab12", knobs={"prefetch.buffer_size": 4})
    with pytest.raises(PlanError, match=r"gone/plan\.json could not be .* printed instead"):
        save_plan(plan, tmp_path / "gone" / "plan.json")
    assert Plan.from_json(capsys.readouterr().out) == plan
