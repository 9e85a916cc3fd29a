"""Trials in separate processes: one that takes all memory, hangs or crashes is a failed trial, not the end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from autopipe.planning.costs.consumer import Consumer
from autopipe.quiet import load_tensorflow
from autopipe.tuning.offline.choices import Choice, Choices
from autopipe.tuning.offline.processes import end_with_parent, fresh_processes
from autopipe.tuning.offline.workbench import LocalWorkbench, Pair, TrialFailedError

__all__ = ["IsolatedWorkbench", "Job"]


@dataclass(frozen=True)
class Job:
    """What a process needs to make the same pipelines again; it can be pickled.

    Attributes:
        make_choices: makes the pipelines.
        make_consumer: makes what reads them.
        seconds: the length of a turn.
        pairs: how many pairs to send back.
    """

    make_choices: Callable[[], Choices]
    make_consumer: Callable[[], Consumer]
    seconds: float
    pairs: int


@dataclass(frozen=True)
class IsolatedWorkbench:
    """Compares any two settings in a new process.

    Attributes:
        job: what the process does.
        timeout: seconds after which it is killed.
    """

    job: Job
    timeout: float

    def pairs(self, reference: Choice, challenger: Choice) -> Iterator[Pair]:
        """Yield the pairs that the process sends, and then more from another."""
        while True:
            yield from self._in_process(reference, challenger)

    def _in_process(self, reference: Choice, challenger: Choice) -> list[Pair]:
        context = fresh_processes()
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_compare, args=(self.job, reference, challenger, there), daemon=True)
        process.start()
        there.close()
        try:
            if not here.poll(self.timeout):
                raise TrialFailedError(f"it gave no answer within {self.timeout:g} seconds")
            answer = here.recv()
        except EOFError:
            process.join()
            raise TrialFailedError(f"its process {_ended(process.exitcode)}") from None
        finally:
            process.kill()
            process.join()
            here.close()
        if isinstance(answer, str):
            raise TrialFailedError(answer)
        return list(answer)


def _compare(job: Job, reference: Choice, challenger: Choice, answer: Any) -> None:
    # An interrupt reaches all processes of the search; this one is ended by the process that waits for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    load_tensorflow()
    try:
        # Standard output belongs to the program that searches.
        with redirect_stdout(sys.stderr):
            bench = LocalWorkbench(job.make_choices(), job.make_consumer(), job.seconds)
            found: list[Pair] | str = list(islice(bench.pairs(reference, challenger), job.pairs))
    except Exception as error:
        found = f"it raised {type(error).__name__}: {error}"
    # The pipe has no reader any more if the search was ended meanwhile.
    with suppress(BrokenPipeError):
        answer.send(found)


def _ended(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name}, as the system does when memory runs out"
    return f"ended with {code}"
