"""Caches of elements in a folder, kept between runs: which file TensorFlow's cache should read or write.

TensorFlow's file cache must never get a name twice. A second iterator under the name of one that still writes raises,
and when it ends it deletes what the first has written. An iterator whose state was saved, or a process that was killed,
leaves files on which the next one fails. So nothing is ever written under a name that was given out before:

``<folder>/<key>/<attempt>/data*``
    The key says which elements (:func:`~autopipe.planning.disk.content.content_key`) and how many; each attempt to
    write them all has its own folder. Only complete attempts are read (:mod:`~autopipe.planning.disk.attempts`).

Incomplete attempts of dead processes are removed when the folder is opened: each process holds a lock while it lives
(:mod:`~autopipe.planning.disk.writers`). Attempts from another machine, or from before this one was started, are only
removed after some days. The folder may hold other files of the user's, which are never touched.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import uuid
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path

import tensorflow as tf

from autopipe.errors import ArgumentError
from autopipe.pipeline import ir
from autopipe.pipeline.signature import signature
from autopipe.pipeline.whole_caches import whole
from autopipe.planning.disk.attempts import (
    ENDED,
    NAME,
    has_element,
    index_of,
    is_complete,
    is_finished,
    number_of,
)
from autopipe.planning.disk.content import UnknownContentError, content_key
from autopipe.planning.disk.writers import (
    ATTEMPT,
    DRAFT,
    LOCK,
    here,
    is_old,
    place,
    remove_if_free,
    writer,
    writer_lives,
)

__all__ = ["MOST_ELEMENTS", "SAMPLES", "DiskCache", "is_out_of_room"]

MOST_ELEMENTS = 10_000_000
"""TensorFlow's file cache fails on the element after this many."""

SAMPLES = "autopipe.sample."
"""The prefix of folders that are written and read only to measure the time it takes."""

_KEY = re.compile(r"[0-9a-f]{32}\.(\d+|unknown)")
# TensorFlow reads the name of a file as a pattern.
_PATTERN = re.compile(r"[*?\[\\]")
# A disk with less room than this counts as full: TensorFlow may write more than that at once.
_LITTLE_ROOM = 64 * 2**20
# Room to reserve as a test: kept small, since on disks that cannot reserve room the system writes to every block.
_SOME_ROOM = 2**20


class DiskCache:
    """A folder that the user named, in which caches of elements are kept between runs.

    Args:
        folder: the folder; it is made if there is none.

    Raises:
        ArgumentError: if it cannot be written or locked, or TensorFlow would misread its path.

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
        _refuse_what_tensorflow_misreads(str(self.folder))
        try:
            writer(self.folder)
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
        """Return the name under which a file cache of a pipeline reads its elements, or should write them.

        If no earlier attempt is complete, the name is new. It serves one iterator only: before each further one, call
        :meth:`again`.

        Raises:
            UnknownContentError: if it is not certain that elements kept there would still be right.
        """
        number = signature(tree).cardinality
        if number > MOST_ELEMENTS:
            raise UnknownContentError(f"a file cache holds {MOST_ELEMENTS:,} elements, and there are {number:,}")
        cache = ir.Cache(input=tree, filename=NAME)
        told = whole(cache, cache)
        # The number of batches may be right though a row failed: rows in a file are not counted.
        return self._filename(f"{content_key(tree)}.{'unknown' if told is None or told.in_rows else told.number}")

    def holds(self, filename: str) -> bool:
        """Return whether all elements are under a name, so that its reader writes nothing."""
        return is_complete(Path(filename).parent)

    def counts_tell(self, filename: str) -> bool:
        """Return whether the number of elements under a name shows that none is missing, without :meth:`note_end`."""
        return number_of(Path(filename).parent) is not None

    def is_written(self, filename: str) -> bool:
        """Return whether TensorFlow came to the end of writing under a name; an element that failed may be missing."""
        return is_finished(Path(filename).parent)

    def number_written(self, filename: str) -> int | None:
        """Return how many elements are under a name that :meth:`is_written`; ``None`` if they cannot be read."""
        index = index_of(Path(filename).parent)
        if index is None:
            return None
        return bisect_left(range(MOST_ELEMENTS), True, key=lambda position: not has_element(index, position))

    def note_end(self, filenames: Iterable[str]) -> None:
        """Note, in a graph, that the consumer reached the end while these names were written."""
        for filename in filenames:
            tf.io.write_file(str(Path(filename).parent / ENDED), "")

    def again(self, filename: str) -> str:
        """Return the name for another iterator over the elements that :meth:`filename` gave a name for.

        It is the same name if all elements are there by now, else a new one. The key is not computed again.

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
        """Return why an incomplete name cannot be written any further: the disk is full, or a limit is reached.

        Call it before the iterator that wrote is gone: TensorFlow then deletes what it wrote, which makes just as much
        room again.
        """
        attempt = Path(filename).parent
        try:
            sizes = [path.stat().st_size for path in attempt.glob(f"{NAME}*")]
            if not sizes or self.holds(filename):
                return None
            if self.free < _LITTLE_ROOM:
                return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), filename)
            _take_room(attempt, after=max(sizes))
        except OSError as error:
            return error if is_out_of_room(error) else None
        return None

    def remove(self, filename: str) -> None:
        """Remove what was written under a name that is no longer read or written."""
        shutil.rmtree(Path(filename).parent, ignore_errors=True)

    def _filename(self, key: str) -> str:
        attempts = sorted(self.folder.glob(f"{key}/*"))
        attempt = next(filter(is_complete, attempts), None)
        if attempt is None:
            attempt = self.folder / key / f"{writer(self.folder)}.{uuid.uuid4().hex[:8]}"
            attempt.mkdir(parents=True)
        return str(attempt / NAME)

    def _remove_what_is_left(self) -> None:
        """Remove what dead processes left, and nothing else: others may write to the folder, too."""
        written = list(self.folder.iterdir())
        for key in written:
            if _KEY.fullmatch(key.name) and key.is_dir() and not key.is_symlink():
                _remove_abandoned(key)
        self._remove_what_was_never_used()
        for lock in written:
            if LOCK.fullmatch(lock.name) and (place(lock) == here() or is_old(lock)):
                remove_if_free(lock)

    def _remove_what_was_never_used(self) -> None:
        """Remove what is left of processes that were killed while measuring, or before they had locked their names."""
        for sample in filter(is_old, self.folder.glob(f"{SAMPLES}*")):
            # It may be another user's, or be removed at the same time.
            with contextlib.suppress(OSError):
                if all(path.name.startswith(NAME) for path in sample.iterdir()):
                    shutil.rmtree(sample)
        for draft in filter(is_old, self.folder.glob("*.new")):
            if DRAFT.fullmatch(draft.name):
                with contextlib.suppress(OSError):
                    draft.unlink()


def is_out_of_room(error: OSError) -> bool:
    """Return whether an error means that the disk is full, or that its user may not write more.

    >>> is_out_of_room(OSError(errno.EDQUOT, "")), is_out_of_room(PermissionError(errno.EACCES, ""))
    (True, False)
    """
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _refuse_what_tensorflow_misreads(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(
            f"The path of a disk cache must be UTF-8, as TensorFlow takes it, but got {path!r}. Name another folder."
        ) from error
    if _PATTERN.search(path):
        raise ArgumentError(
            "The path of a disk cache must not contain the characters * ? [ \\, which TensorFlow reads as a "
            f"pattern, but got {path!r}. Name another folder."
        )


def _take_room(attempt: Path, after: int) -> None:
    """Reserve some room for a moment, beyond the size of the largest file: no call reports a quota.

    Raises:
        OSError: if there is no room.
    """
    draft = attempt / f"room.{uuid.uuid4().hex[:8]}"
    handle = os.open(draft, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        os.posix_fallocate(handle, after, _SOME_ROOM)
    finally:
        os.close(handle)
        draft.unlink(missing_ok=True)


def _remove_abandoned(key: Path) -> None:
    # It may be another user's.
    with contextlib.suppress(OSError):
        for attempt in key.iterdir():
            # In this order: a living writer may come to its end in between.
            if ATTEMPT.fullmatch(attempt.name) and not writer_lives(attempt) and not is_complete(attempt):
                shutil.rmtree(attempt, ignore_errors=True)
