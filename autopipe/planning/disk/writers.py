"""The writers of the folder of a disk cache: each process has its own name, which it holds a lock on.

The kernel releases the lock (``flock``) when the process dies, however it dies. Locks may not be seen across machines.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import time
import uuid
from functools import lru_cache
from pathlib import Path

import psutil

from autopipe.environment import boot_id

__all__ = ["ATTEMPT", "DRAFT", "LOCK", "here", "is_old", "place", "remove_if_free", "writer", "writer_lives"]

_WRITER = r"[0-9a-f]{12}\.[0-9a-f]{12}"
ATTEMPT = re.compile(rf"{_WRITER}\.[0-9a-f]{{8}}")
"""The name of the folder of an attempt to write all elements: its writer, and a unique part."""

LOCK, DRAFT = (re.compile(rf"{_WRITER}\.{kind}") for kind in ("lock", "new"))
"""The name of the file on which a writer holds its lock, and its name before the lock is held."""

_DAYS_ELSEWHERE = 7
# The name of this process in each folder; its lock is held until the process ends.
_writers: dict[Path, str] = {}


def writer(folder: Path) -> str:
    """Return the name of this process in a folder, ``<place>.<unique>``, and hold its lock."""
    known = _writers.get(folder)
    if known is not None and _lock_of(folder, known).exists():
        return known
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{here()}.{uuid.uuid4().hex[:12]}"
    draft = folder / f"{name}.new"
    handle = os.open(draft, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    fcntl.flock(handle, fcntl.LOCK_EX)
    # It gets its name only when it is locked, so that it is not mistaken for that of a dead process.
    draft.rename(_lock_of(folder, name))
    _writers[folder] = name
    return name


def _lock_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.lock"


@lru_cache(maxsize=1)
def here() -> str:
    """Return an identifier of this machine until its next boot: until then what the kernel holds can be read."""
    start = boot_id() or f"{platform.node()} {psutil.boot_time()}"
    return hashlib.sha256(start.encode()).hexdigest()[:12]


def place(path: Path) -> str:
    """Return the identifier of the machine on which an attempt was written, or a lock made."""
    return path.name.split(".")[0]


def writer_lives(attempt: Path) -> bool:
    """Return whether the writer of an attempt may still be writing it."""
    if place(attempt) != here():
        return not is_old(attempt)
    return not remove_if_free(_lock_of(attempt.parents[1], attempt.name.rpartition(".")[0]))


def is_old(path: Path) -> bool:
    """Return whether a file or folder is so old that its process, on whatever machine, is gone."""
    try:
        return time.time() - path.stat().st_mtime > _DAYS_ELSEWHERE * 24 * 3600
    except OSError:
        return False


def remove_if_free(lock: Path) -> bool:
    """Remove the lock of a process unless it lives; return whether it is gone."""
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        lock.unlink(missing_ok=True)
    # It is held, or is another user's in a folder in which users may only remove their own files.
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
