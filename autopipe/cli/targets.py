"""Finding the functions that the user names as ``file.py:function`` or ``module:function``."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from autopipe.errors import AutopipeError, TargetError

__all__ = ["UserCodeError", "anchored", "load_dataset", "load_model", "load_target", "user_code"]


class UserCodeError(Exception):
    """The user's own code raised; ``__cause__`` is what it raised.

    Args:
        origin: the file or module it is in.
    """

    def __init__(self, origin: str) -> None:
        super().__init__(origin)
        self.origin = origin


@contextmanager
def user_code(origin: str) -> Iterator[None]:
    """Run code of the user's: its errors, and a call of ``sys.exit()``, become a ``UserCodeError``.

    What it prints goes to standard error: standard output is for the command, perhaps for JSON. A script that parses
    arguments when it is imported sees none.
    """
    try:
        with redirect_stdout(sys.stderr), _without_own_arguments(origin):
            yield
    except (AutopipeError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise UserCodeError(origin) from error


@contextmanager
def _without_own_arguments(origin: str) -> Iterator[None]:
    arguments, sys.argv = sys.argv, [origin]
    try:
        yield
    finally:
        sys.argv = arguments


def anchored(text: str) -> str:
    """Return a target that can still be found after code loaded before it has changed the working directory."""
    origin, _, name = text.rpartition(":")
    if origin and _is_file(origin):
        return f"{os.path.abspath(os.path.expanduser(origin))}:{name}"
    _put_on_path(Path.cwd())
    return text


def load_target(text: str) -> Callable[..., Any]:
    """Return the function that ``file.py:function`` or ``module:function`` names.

    A file is imported with its folder on ``sys.path``, as the module that its own processes and helpers would import,
    so that ``if __name__ == "__main__"`` does not hold; a file that two targets name is imported once.

    Raises:
        TargetError: if the text names no function.
        UserCodeError: if the import raises.
    """
    origin, colon, name = text.rpartition(":")
    if not colon or not origin or not name or origin.endswith(":") or _is_relative(origin):
        raise TargetError(
            f"A target must be file.py:function or module:function, but got {text!r}. "
            "Name the function that returns the dataset, as in train.py:make_dataset."
        )
    module = _load_file(origin) if _is_file(origin) else _load_module(origin)
    with user_code(origin):
        target = getattr(module, name, None)
    if not callable(target):
        raise TargetError(_no_function(text, target, module, origin, name))
    return target  # type: ignore[no-any-return]


def load_dataset(text: str, arguments: Mapping[str, Any]) -> Any:
    """Call the function that ``text`` names and return its dataset as it was written.

    Args:
        text: ``file.py:function`` or ``module:function``.
        arguments: given to the function by name.

    Raises:
        TargetError: if there is no such function, it takes other arguments, or returns no ``tf.data.Dataset``.
        UserCodeError: if the import or the function raises.
    """
    import tensorflow as tf

    from autopipe.pipeline.source_lines import noting_lines

    with noting_lines():
        dataset = _call(
            text, arguments, remedy="Give one with --arg name=value for each, or write a function that needs none."
        )
    if not isinstance(dataset, tf.data.Dataset):
        raise TargetError(
            f"{text} must return a tf.data.Dataset, but it returned {_described(dataset)}. "
            "Write a function that returns the dataset given to fit(), and name that."
        )
    # A script that calls autopipe.optimize() itself is looked at as it was before.
    return getattr(dataset, "original", dataset)


def load_model(text: str) -> Any:
    """Call the function that ``text`` names and return its compiled Keras model.

    Raises:
        TargetError: if there is no such function, it takes arguments, or returns no compiled model.
        UserCodeError: if the import or the function raises.
    """
    import keras

    model = _call(text, {}, remedy="--arg is for the dataset's: write a function of the model that needs none.")
    if not isinstance(model, keras.Model) or not model.compiled:
        raise TargetError(f"{text} must return a compiled keras.Model, but it returned {_no_model(model)}.")
    return model


def _no_model(returned: object) -> str:
    """Return what came in place of a compiled model, and the remedy."""
    import keras

    if type(returned).__module__.startswith("tf_keras"):
        return "one of Keras 2. Make it with the package keras; TF_USE_LEGACY_KERAS must not be set for that"
    received = "a model that is not compiled" if isinstance(returned, keras.Model) else _described(returned)
    return f"{received}. Call model.compile(...) in it and return the model"


def _call(text: str, arguments: Mapping[str, Any], *, remedy: str) -> Any:
    target = load_target(text)
    try:
        signature = inspect.signature(target)
    except ValueError:
        raise TargetError(
            f"A target must be a function written in Python, but {text} is not. Wrap it in one, and name that."
        ) from None
    try:
        signature.bind(**arguments)
    except TypeError as mismatch:
        takes = ", ".join(signature.parameters) or "no arguments"
        raise TargetError(
            f"{text} must be callable with the arguments given, but {mismatch}; it takes {takes}. {remedy}"
        ) from None
    if inspect.iscoroutinefunction(target):
        raise TargetError(
            f"A target must be a function that returns what is asked for, but {text} is one of async def. "
            "Write a function that runs it, as by asyncio.run, and name that."
        )
    with user_code(text.rpartition(":")[0]):
        return target(**arguments)


def _is_file(origin: str) -> bool:
    return origin.endswith(".py") or os.sep in origin


def _is_relative(origin: str) -> bool:
    return origin.startswith(".") and not _is_file(origin)


def _load_file(origin: str) -> ModuleType:
    path = Path(os.path.expanduser(origin)).resolve()
    # Not Path.is_file(), which raises where a name is too long.
    if not os.path.isfile(path):
        near = get_close_matches(path.name, [each.name for each in path.parent.glob("*.py")])
        raise TargetError(f"A target must be in a Python file, but there is no file {origin!r}.{_did_you_mean(near)}")
    _put_on_path(path.parent)
    try:
        with user_code(origin):
            return importlib.import_module(path.stem) if _is_found_by_name(path) else _load_apart(path)
    except UserCodeError as error:
        if "relative import" in str(error.__cause__) and _raised_in(path, error.__cause__):
            raise TargetError(
                f"A target in a file must need no package around it, but {origin} has relative imports. Name its "
                f"module, from the folder that its package is in: package.{path.stem}:function."
            ) from error
        raise


def _is_found_by_name(path: Path) -> bool:
    """Return whether ``import`` of its name, in any process that has its folder on the path, gives this very file."""
    if "." in path.stem:
        return False
    try:
        spec = importlib.util.find_spec(path.stem)
    except ValueError:
        # A module that is loaded has no spec, as __main__.
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == path


def _load_apart(path: Path) -> ModuleType:
    """Import a file under a private name, since its own belongs to another module, or is not a valid one."""
    name = f"_autopipe_target_{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"A target must be in a Python file, but {str(path)!r} cannot be imported. Name a .py file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _raised_in(path: Path, error: BaseException | None) -> bool:
    frames = traceback.extract_tb(error.__traceback__ if error else None)
    return any(frame.filename == str(path) for frame in frames[-1:])


def _load_module(origin: str) -> ModuleType:
    _put_on_path(Path.cwd())
    try:
        with user_code(origin):
            return importlib.import_module(origin)
    except UserCodeError as error:
        missing = error.__cause__
        # If the user's module fails to import another one, the traceback shows what to fix.
        if isinstance(missing, ModuleNotFoundError) and f"{origin}.".startswith(f"{missing.name}."):
            near = get_close_matches(origin, [each.stem for each in Path.cwd().glob("*.py")])
            raise TargetError(
                f"A target must be in a file or module that can be imported, but there is no module {origin!r}. "
                f"For a file, write its path with .py.{_did_you_mean([f'{each}.py' for each in near])}"
            ) from None
        raise


def _put_on_path(folder: Path) -> None:
    # It stays there, since functions may import when they are called.
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _no_function(text: str, found: object, module: ModuleType, origin: str, name: str) -> str:
    if found is not None:
        return (
            f"A target must be a function, but {text} is {_described(found)}. "
            f"Write a function that returns it: def make_{name}(): return {name}."
        )
    if "." in name:
        wrapped = f"def make_{name.rpartition('.')[2]}(): return {name}()"
        return f"A target must name a function of the file itself, but got {name!r}. Add one that calls it: {wrapped}."
    functions = [each for each, value in vars(module).items() if inspect.isroutine(value) and not each.startswith("_")]
    near = get_close_matches(name, functions)
    remedy = _did_you_mean(near) if near or not functions else f" It has {' and '.join(sorted(functions)[:5])}."
    return f"A target must name a function, but {origin} has no {name!r}.{remedy}"


def _did_you_mean(names: list[str]) -> str:
    return f" Did you mean {' or '.join(names)}?" if names else " Check the spelling."


def _described(value: object) -> str:
    if value is None:
        return "None (is the return missing?)"
    kind = type(value).__name__
    if isinstance(value, tuple | list):
        return f"a {kind} of {len(value)}"
    return f"an object of type {kind}"
