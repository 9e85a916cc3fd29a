"""What runs here, and on what: the release, the machine since it was started, and the processors there are."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["boot_id", "processors", "release"]


def release() -> str | None:
    """Return the version of autopipe; ``None`` where it is not installed.

    >>> release() is None or release()[0].isdigit()
    True
    """
    try:
        return version("keras-autopipe")
    except PackageNotFoundError:
        return None


def boot_id() -> str:
    """Return an identifier of this machine until its next boot; empty if the kernel does not tell.

    >>> boot_id() == boot_id().strip()
    True
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def processors() -> int:
    """Return how many processors TensorFlow sees: those that this process may run on.

    >>> processors() > 0
    True
    """
    return len(os.sched_getaffinity(0))
