"""Python code whose author declares what autopipe cannot see: that it is deterministic, without side effects."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from autopipe.errors import ArgumentError

__all__ = ["declared_stateless", "stateless"]

_Callable = TypeVar("_Callable", bound=Callable[..., Any])

_MARK = "_autopipe_stateless"


def stateless(function: _Callable) -> _Callable:
    """Declare that the result of Python code depends only on its arguments, and that it has no side effects.

    autopipe cannot look into Python code, and so leaves every ``tf.py_function``, ``tf.numpy_function`` and
    ``Dataset.from_generator`` where it is: it might draw random numbers, count its calls, or read what changes. With
    this declaration, a decorator, its results may be cached, and it may run in several threads at once, ahead of
    training, in another order or not at all.

    Declare only a function that gives the same result for the same arguments (a generator: the same elements in every
    epoch), has no side effects, and may be called from several threads. A function that draws from ``random`` or
    ``numpy.random`` does not qualify, though it keeps no state itself: its first draws would be cached and repeated in
    every epoch. For ``tf.numpy_function``, ``stateful=False`` declares the same to TensorFlow, and autopipe relies on
    that too.

    Args:
        function: the function to pass to TensorFlow. A method is declared for all objects of its class.

    Returns:
        The same function.

    Raises:
        ArgumentError: if it cannot be marked, as one written in C cannot.

    >>> import autopipe
    >>> @autopipe.stateless
    ... def squares(count):
    ...     yield from (number**2 for number in range(count))
    >>> list(squares(4))
    [0, 1, 4, 9]
    """
    target = _without_self(function)
    try:
        # The mark is the function itself: functools.wraps copies it to wrappers, which may keep state.
        setattr(target, _MARK, target)
    except (AttributeError, TypeError):
        raise ArgumentError(
            f"A function that is declared stateless must be written in Python, but got {function!r}. "
            "Wrap it in a function of your own and declare that."
        ) from None
    return function


def declared_stateless(node: Any) -> bool:
    """Return whether the author of what an op runs has declared it stateless.

    Args:
        node: the ``NodeDef`` of a ``PyFunc``, ``PyFuncStateless`` or ``EagerPyFunc``.
    """
    if node.op == "PyFuncStateless":
        return True
    function = _registered(node.attr["token"].s)
    return function is not None and any(map(_is_marked, _called(function)))


def _is_marked(function: Any) -> bool:
    function = _without_self(function)
    return getattr(function, _MARK, None) is function


def _without_self(function: Any) -> Any:
    """Return the function of a bound method: each access makes another bound method, but the function is the same."""
    return getattr(function, "__func__", function)


def _registered(token: bytes) -> Any:
    """Return the function that TensorFlow registered for a token; there is no public API for it."""
    from tensorflow.python.ops import script_ops

    return script_ops._py_funcs.get(token.decode())


def _called(function: Any) -> Iterator[Any]:
    """Yield the function that TensorFlow runs, then what that wraps, down to the user's function or generator."""
    from tensorflow.python.data.ops.dataset_ops import DatasetV2
    from tensorflow.python.ops.script_ops import EagerFunc

    while function is not None:
        yield function
        if isinstance(function, EagerFunc):
            function = function._func
        elif isinstance(function, functools.partial):
            function = function.func
        elif isinstance(getattr(function, "__self__", None), DatasetV2._GeneratorState):
            function = function.__self__._generator
        else:
            function = _held_by(function)


def _held_by(function: Any) -> Any:
    """Return what a function of TensorFlow runs: a generator, or a function that it wraps."""
    from tensorflow.python.data.ops.dataset_ops import DatasetV2

    # Not by its __module__: TensorFlow's wrappers take over that of what they wrap.
    if not getattr(function, "__globals__", {}).get("__name__", "").startswith("tensorflow."):
        return None
    held = inspect.getclosurevars(function).nonlocals
    state = held.get("generator_state")
    return state._generator if isinstance(state, DatasetV2._GeneratorState) else held.get("func")
