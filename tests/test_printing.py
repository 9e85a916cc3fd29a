"""What is printed arrives, whatever the output can show."""

import io
import sys

from rich.table import Table

from autopipe.printing import show


def test_an_output_of_few_signs_gets_question_marks_and_no_error(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    show("caf\u00e9 \u2588", "[bold] stays as it is")
    assert raw.getvalue() == b"caf? ?\n[bold] stays as it is\n"


def test_tables_and_signs_are_shown_where_they_can_be(capsys):
    table = Table("epoch")
    table.add_row("1 \u2588")
    show(table, "\u2588")
    assert "1 \u2588" in capsys.readouterr().out


def test_a_line_is_not_broken(capsys):
    show("word " * 60)
    assert len(capsys.readouterr().out.splitlines()) == 1
