"""TensorFlow imports JAX, and Keras matplotlib, for no other reason than that they are there, which takes two seconds.

Most users have not installed them, and of the tests few need them.
"""

import os
import sys
from pathlib import Path

HIDDEN = str(Path(__file__).with_name("hidden"))


def hide() -> None:
    """Have neither this process import them, until they are shown, nor those that it starts."""
    sys.path.insert(0, HIDDEN)
    os.environ["PYTHONPATH"] = os.pathsep.join([HIDDEN, *_others(os.environ.get("PYTHONPATH", ""))])


def show() -> None:
    """Let this process import them from now on."""
    sys.path[:] = [folder for folder in sys.path if folder != HIDDEN]


def showing() -> dict[str, str]:
    """Return the environment of a process that may import them."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(_others(os.environ.get("PYTHONPATH", "")))}


def _others(path: str) -> list[str]:
    return [folder for folder in path.split(os.pathsep) if folder not in {"", HIDDEN}]
