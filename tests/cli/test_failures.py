"""Whose code raised what a command ends with."""

import json
import site

import pytest

from autopipe.cli._failures import _is_installed, save_plan
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


def test_a_plan_is_printed_where_its_folder_went_away_meanwhile(tmp_path, capsys):
    plan = Plan("ab12", knobs={"prefetch.buffer_size": 4})
    with pytest.raises(PlanError, match=r"gone/plan\.json could not be .* printed instead"):
        save_plan(plan, tmp_path / "gone" / "plan.json")
    assert Plan.from_json(capsys.readouterr().out) == plan
