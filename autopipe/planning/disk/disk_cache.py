"""Caches of elements in a folder, kept between runs: which file TensorFlow's cache is to read or to write.

TensorFlow's file cache must not be trusted with a name that is used twice. A second iterator under the name of one that
writes raises, and its end deletes what the first has written. An iterator whose state was saved, or a process that was
killed, leaves files on which the next one fails. So nothing is ever written under a name that was given out before:

``<folder>/<key>/<attempt>/data*``
    The key says which elements (:func:`~autopipe.planning.disk.content.content_key`) and how many; each attempt to
    write them all has a folder of its own. Only complete attempts are read.

What proves that an attempt is complete. TensorFlow writes the data, closes it, gives it its last name, writes and
closes the index, and then deletes its lock file. If there is an index but no lock file, everything was handed to the
kernel, which outlives a killed process. It does not outlive the machine: so this is proof for as long as the machine
that wrote it runs, and meanwhile the files are forced to the disk, and then a mark that holds their sizes, which is
proof for ever after. Where the number of elements is known, the last one must be there; where not, whoever read them
while they were written must have come to the end: TensorFlow leaves out those that failed, if a prefetch goes on.

Who may delete. Each process holds a lock (``flock``) on a file in the folder, which the kernel releases when it dies,
however it dies. What a dead process left incomplete is removed when the folder is opened. What was written on another
machine, or before this one was started, is only removed after some days, since locks may not be seen across machines.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import threading
import time
import uuid
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil

from autopipe.errors import ArgumentError
from autopipe.here import boot_id
from autopipe.pipeline import ir
from autopipe.pipeline.signature import signature
from autopipe.pipeline.whole import whole
from autopipe.planning.disk.content import UnknownContentError, content_key

__all__ = ["MOST_ELEMENTS", "SAMPLES", "DiskCache", "is_out_of_room"]

MOST_ELEMENTS = 10_000_000
"""TensorFlow's file cache fails on the element after these."""

SAMPLES = "autopipe.sample."
"""What folders are called first of which one is written, and read, to know what that takes."""

_NAME = "data"
_DRAFT = re.compile(r"[0-9a-f]{12}\.[0-9a-f]{12}\.new")
_MARK = "complete"
_ENDED = "ended"
_DAYS_ELSEWHERE = 7
# What TensorFlow writes at once may be larger than what was left.
_LITTLE_ROOM = 64 * 2**20
# Where a disk cannot set room aside, the system writes to every block of it.
_SOME_ROOM = 2**20
# The writer that this process is in each folder; its lock is held until the process ends.
_writers: dict[Path, str] = {}


class DiskCache:
    """A folder that the user named, in which caches of elements are kept between runs.

    Args:
        folder: where; it is made if it is not there.

    Raises:
        ArgumentError: if it cannot be written, or locked.

    >>> import tempfile, tensorflow as tf
    >>> from autopipe.pipeline.build import build
    >>> from autopipe.pipeline.extract import extract
    >>> tree = extract(tf.data.Dataset.range(5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     disk = DiskCache(folder)
    ...     first, second = disk.filename(tree), disk.filename(tree)
    ...     written = list(build(ir.Cache(input=tree, filename=second)))
    ...     first != second, disk.filename(tree) == second
    (True, True)
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).absolute()
        try:
            _writer(self.folder)
            self._remove_what_is_left()
        except OSError as error:
            raise ArgumentError(
                f"The folder of a disk cache must be one that can be written and locked, but {os.fspath(folder)!r} is "
                f"not ({error.strerror}). Name another one, on a disk of this machine."
            ) from error

    @property
    def free(self) -> int:
        """The bytes that are left on its disk."""
        return shutil.disk_usage(self.folder).free

    def filename(self, tree: ir.Node) -> str:
        """Return under which name a file cache of a pipeline reads its elements, or else is to write them.

        If no earlier attempt is complete, the name is a new one. It serves one iterator only: before each further one,
        ask :meth:`again`.

        Raises:
            UnknownContentError: if nobody can tell for sure whether elements kept there would still be right.
        """
        number = signature(tree).cardinality
        if number > MOST_ELEMENTS:
            raise UnknownContentError(f"a file cache holds {MOST_ELEMENTS:,} elements, and there are {number:,}")
        cache = ir.Cache(input=tree, filename=_NAME)
        told = whole(cache, cache)
        # Of batches there may be as many though a row failed: nobody counts rows in a file.
        return self._filename(f"{content_key(tree)}.{'unknown' if told is None or told.in_rows else told.number}")

    def holds(self, filename: str) -> bool:
        """Return whether all elements are under a name, so that who reads it writes nothing."""
        return _is_complete(Path(filename).parent)

    def counts_tell(self, filename: str) -> bool:
        """Return whether the number of elements under a name tells that none is missing, without :meth:`note_end`."""
        return _number(Path(filename).parent) is not None

    def is_written(self, filename: str) -> bool:
        """Return whether TensorFlow came to the end of writing under a name; an element that failed may be missing."""
        return _is_finished(Path(filename).parent)

    def number_written(self, filename: str) -> int | None:
        """Return how many elements are under a name where :meth:`is_written`; ``None`` if they cannot be read."""
        index = _index(Path(filename).parent)
        if index is None:
            return None
        return bisect_left(range(MOST_ELEMENTS), True, key=lambda place: not _has(index, place))

    def note_end(self, filenames: Iterable[str]) -> None:
        """Take note, in a graph, that the consumer of what is written under these names came to its end."""
        import tensorflow as tf

        for filename in filenames:
            tf.io.write_file(str(Path(filename).parent / _ENDED), "")

    def again(self, filename: str) -> str:
        """Return the name for another iterator over the elements that :meth:`filename` gave a name for.

        It is the same if they are all there by now, else a new one. Nothing is looked up again: elements are those
        they were.

        Raises:
            OSError: if the folder cannot be written to any more, or the disk became full while they were written.
        """
        if self.holds(filename):
            return filename
        stopped = self.what_stops(filename)
        if stopped is not None:
            raise stopped
        return self._filename(Path(filename).parent.parent.name)

    def what_stops(self, filename: str) -> OSError | None:
        """Return why no more can be written under a name where not all is: the disk is full, or a limit is reached.

        To be asked before the iterator that wrote is gone: TensorFlow deletes what it wrote then, and there is room
        again for as much, and no more.
        """
        attempt = Path(filename).parent
        try:
            sizes = [path.stat().st_size for path in attempt.glob(f"{_NAME}*")]
            if not sizes or self.holds(filename):
                return None
            if self.free < _LITTLE_ROOM:
                return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), filename)
            _take_room(attempt, after=max(sizes))
        except OSError as error:
            return error if is_out_of_room(error) else None
        return None

    def remove(self, filename: str) -> None:
        """Remove what was written under a name that nobody reads or writes any more."""
        shutil.rmtree(Path(filename).parent, ignore_errors=True)

    def _filename(self, key: str) -> str:
        attempts = sorted(self.folder.glob(f"{key}/*"))
        attempt = next(filter(_is_complete, attempts), None)
        if attempt is None:
            attempt = self.folder / key / f"{_writer(self.folder)}.{uuid.uuid4().hex[:8]}"
            attempt.mkdir(parents=True)
        return str(attempt / _NAME)

    def _remove_what_is_left(self) -> None:
        for attempt in self.folder.glob("*/*.*.*"):
            # In this order: one that lives may come to its end in between.
            if _is_abandoned(attempt) and not _is_complete(attempt):
                shutil.rmtree(attempt, ignore_errors=True)
        self._remove_what_was_never_used()
        for lock in self.folder.glob("*.lock"):
            if _place(lock) == _here() or _is_old(lock):
                _remove_if_free(lock)

    def _remove_what_was_never_used(self) -> None:
        """Remove what a process left that was killed while it measured, or before it had locked its name."""
        for sample in filter(_is_old, self.folder.glob(f"{SAMPLES}*")):
            # It may be another user's, or go at the same time.
            with contextlib.suppress(OSError):
                if all(path.name.startswith(_NAME) for path in sample.iterdir()):
                    shutil.rmtree(sample)
        for draft in filter(_is_old, self.folder.glob("*.new")):
            if _DRAFT.fullmatch(draft.name):
                with contextlib.suppress(OSError):
                    draft.unlink()


def is_out_of_room(error: OSError) -> bool:
    """Return whether an error says that the disk is full, or that its user may not write more.

    >>> is_out_of_room(OSError(errno.EDQUOT, "")), is_out_of_room(PermissionError(errno.EACCES, ""))
    (True, False)
    """
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _take_room(attempt: Path, after: int) -> None:
    """Take some room for a moment, where a file of so many bytes would grow: no call tells of a quota.

    Raises:
        OSError: if there is none.
    """
    draft = attempt / f"room.{uuid.uuid4().hex[:8]}"
    handle = os.open(draft, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        os.posix_fallocate(handle, after, _SOME_ROOM)
    finally:
        os.close(handle)
        draft.unlink(missing_ok=True)


def _writer(folder: Path) -> str:
    """Return the name of this process in a folder, ``<place>.<unique>``, and hold its lock."""
    known = _writers.get(folder)
    if known is not None and _lock_of(folder, known).exists():
        return known
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{_here()}.{uuid.uuid4().hex[:12]}"
    draft = folder / f"{name}.new"
    handle = os.open(draft, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    fcntl.flock(handle, fcntl.LOCK_EX)
    # It has its name only when it is locked, so that nobody takes it for one of a dead process.
    draft.rename(_lock_of(folder, name))
    _writers[folder] = name
    return name


def _lock_of(folder: Path, writer: str) -> Path:
    return folder / f"{writer}.lock"


@lru_cache(maxsize=1)
def _here() -> str:
    """Return what this machine is known by until it is started again: for so long what is written can be read."""
    start = boot_id() or f"{platform.node()} {psutil.boot_time()}"
    return hashlib.sha256(start.encode()).hexdigest()[:12]


def _place(path: Path) -> str:
    """Return where an attempt was written, or a lock made."""
    return path.name.split(".")[0]


def _is_complete(attempt: Path) -> bool:
    """Return whether all elements are there, proved in one of the two ways; by the first, the second is begun."""
    if not _is_finished(attempt):
        return False
    if (attempt / _MARK).exists():
        return True
    if not _is_readable(attempt):
        return False
    # Forcing it to the disk may take long, and until this machine stops nobody needs it.
    threading.Thread(target=_mark, args=(attempt,), daemon=True).start()
    return True


def _is_finished(attempt: Path) -> bool:
    """Return whether TensorFlow came to the end of writing, as far as can be told without reading."""
    # In this order: the lock file is deleted after the index is written.
    if not (attempt / f"{_NAME}.index").exists() or _is_being_written(attempt):
        return False
    try:
        mark = (attempt / _MARK).read_text()
    except FileNotFoundError:
        return _place(attempt) == _here()
    except OSError:
        return False
    return mark == _sizes(attempt)


def _is_being_written(attempt: Path) -> bool:
    return any(attempt.glob(f"{_NAME}_*.lockfile"))


def _is_readable(attempt: Path) -> bool:
    """Return whether the index can be read and names the last element; if none is known, whether the end was seen.

    It does not if an element failed and its consumer went on: TensorFlow then keeps the others.
    """
    index = _index(attempt)
    if index is None:
        return False
    number = _number(attempt)
    if number is None:
        return (attempt / _ENDED).exists()
    return number == 0 or _has(index, number - 1)


def _index(attempt: Path) -> Any:
    """Return what TensorFlow reads the elements by; ``None`` if it cannot be read."""
    import tensorflow as tf

    try:
        return tf.train.load_checkpoint(str(attempt / _NAME))
    except (tf.errors.OpError, RuntimeError, ValueError):
        return None


def _number(attempt: Path) -> int | None:
    """Return how many elements there are to be; ``None`` if nobody knows."""
    number = attempt.parent.name.partition(".")[2]
    return int(number) if number.isdecimal() else None


def _has(index: Any, place: int) -> bool:
    """Return whether the element at a place is in an index."""
    # The key of a tensor is the place of its element and its own, each padded to the width of the largest.
    return any(index.has_tensor(f"{place:7d}_{0:{width}d}") for width in range(1, 4))


def _sizes(attempt: Path) -> str:
    return json.dumps({path.name: path.stat().st_size for path in sorted(attempt.glob(f"{_NAME}.*"))})


def _mark(attempt: Path) -> None:
    """Force an attempt to the disk, and then say that it is there."""
    draft = attempt / f"{_MARK}.{uuid.uuid4().hex[:8]}"
    try:
        sizes = _sizes(attempt)
        for path in (*attempt.glob(f"{_NAME}.*"), attempt):
            _force_to_disk(path)
        draft.write_text(sizes)
        _force_to_disk(draft)
        draft.rename(attempt / _MARK)
        _force_to_disk(attempt)
    except OSError:
        draft.unlink(missing_ok=True)


def _force_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_abandoned(attempt: Path) -> bool:
    if _place(attempt) != _here():
        return _is_old(attempt)
    return _remove_if_free(_lock_of(attempt.parents[1], attempt.name.rpartition(".")[0]))


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > _DAYS_ELSEWHERE * 24 * 3600
    except OSError:
        return False


def _remove_if_free(lock: Path) -> bool:
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
    # It is held, or is another user's in a folder in which each may only remove their own.
    except OSError:
        return False
    finally:
        os.close(handle)
    return True
