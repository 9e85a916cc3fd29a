"""Programs in processes of their own, as ``python`` runs them, but forked from one that has imported TensorFlow."""

import contextlib
import io
import runpy
import sys
import traceback
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from autopipe.tuning.offline.processes import fresh_processes


def run_program(program: str | Path, *arguments: object) -> str:
    """Return what a text or a file prints; it finds the arguments in ``sys.argv``. What it raises is an error here."""
    process, answer = begin_program(program, *arguments)
    try:
        printed, error = answer.recv()
    finally:
        process.join()
        answer.close()
    if error:
        raise AssertionError(error)
    return str(printed)


def begin_program(program: str | Path, *arguments: object) -> tuple[BaseProcess, Connection]:
    """Return the process of a program, and where it will say what it printed and what it raised."""
    context = fresh_processes()
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(program, list(map(str, arguments)), there), daemon=True)
    process.start()
    there.close()
    return process, here


def _run(program: str | Path, arguments: list[str], answer: Connection) -> None:
    sys.argv = [str(program) if isinstance(program, Path) else "-c", *arguments]
    printed, error = io.StringIO(), ""
    try:
        with contextlib.redirect_stdout(printed):
            if isinstance(program, Path):
                runpy.run_path(str(program), run_name="__main__")
            else:
                exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
    except BaseException:
        error = traceback.format_exc()
    answer.send((printed.getvalue(), error))
