"""Answers about a function are remembered exactly as long as the function lives."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from copy import copy
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from autopipe.functions.function import Function

__all__ = ["RefusalError", "remembered"]

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_MEMORY = "_autopipe_memory"


class RefusalError(Exception):
    """A function is not of the kind that was asked for, and never will be; the message says why."""


def remembered(
    question: Callable[Concatenate[Function, _Arguments], _Result],
) -> Callable[Concatenate[Function, _Arguments], _Result]:
    """Answer a question about a traced function only once, even if the answer is a :class:`RefusalError`.

    The answer is kept on the traced function itself: a table of answers would keep the functions alive, and with them
    the arrays they capture, since an answer often holds the function it is about.
    """

    @wraps(question)
    def ask(fn: Function, /, *arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        memory: dict[Hashable, _Result | RefusalError] = fn.concrete.__dict__.setdefault(_MEMORY, {})
        key = (question.__qualname__, question.__module__, arguments, tuple(named.items()))
        if key not in memory:
            try:
                memory[key] = question(fn, *arguments, **named)
            except RefusalError as refused:
                # A copy has no traceback, whose frames hold all that was tried.
                memory[key] = copy(refused)
                raise
        answer = memory[key]
        if isinstance(answer, RefusalError):
            raise copy(answer)
        return answer

    return ask
