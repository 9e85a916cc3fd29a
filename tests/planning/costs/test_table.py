"""The table of costs tells what an element failed of in its own words."""

import io

import pytest
import tensorflow as tf
from rich.console import Console

import autopipe
from autopipe.planning.costs.table import costs_table


@pytest.mark.parametrize("words", ["[/data/3.jpg] is damaged", "[too big] for [red]this[/red]", "[bold"])
def test_what_is_in_brackets_is_shown_and_is_no_style(words):
    def check(x):
        tf.debugging.assert_less(x, tf.constant(40, tf.int64), message=words)
        return x

    profile = autopipe.profile(tf.data.Dataset.range(64).map(check).batch(2), seconds=0.4)
    shown = io.StringIO()
    Console(file=shown, width=300).print(costs_table(profile, width=300))
    assert words in " ".join(shown.getvalue().split())


@pytest.mark.parametrize(("width", "shown"), [(22, ["Work"]), (30, ["Work"]), (39, ["Work"]), (40, ["Time", "Work"])])
def test_however_narrow_a_terminal_is_each_stage_can_be_read_with_its_share_of_the_work(width, shown):
    profile = autopipe.profile(tf.data.Dataset.range(1_000_000).shuffle(30).batch(2), seconds=0.2)
    out = io.StringIO()
    Console(file=out, width=width).print(costs_table(profile, width=width))
    text = out.getvalue()
    assert [name for name in ("Time", "Work", "Calls") if name in text] == shown
    assert "…" not in text
    assert text.count("%") == len(profile.stages)
    assert all(name in text for name in ("range", "shuffle", "batch"))
