"""Programs in processes of their own, as ``python -c`` runs them, but forked from one that has imported TensorFlow."""

import contextlib
import io
import sys
import traceback
from multiprocessing.connection import Connection

from autopipe.tuning.processes import fresh_processes


def run_program(text: str, *arguments: object) -> str:
    """Return what a program prints; it finds the arguments in ``sys.argv``. What it raises is an error here."""
    context = fresh_processes()
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(text, list(map(str, arguments)), there), daemon=True)
    process.start()
    there.close()
    try:
        printed, error = here.recv()
    finally:
        process.join()
        here.close()
    if error:
        raise AssertionError(error)
    return str(printed)


def _run(text: str, arguments: list[str], answer: Connection) -> None:
    sys.argv = ["-c", *arguments]
    printed, error = io.StringIO(), ""
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(text, "<program>", "exec"), {"__name__": "__main__"})
    except BaseException:
        error = traceback.format_exc()
    answer.send((printed.getvalue(), error))
