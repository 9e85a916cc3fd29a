"""A journal of trials that survives processes killed while they write a line."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from optuna.exceptions import StorageInternalError
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

__all__ = ["journal_at"]

# Each line that Optuna writes begins with this.
_BEGINNING = b'{"op_code":'


def journal_at(path: str) -> JournalStorage:
    """Return an Optuna storage that keeps its trials in a file, to which several processes may write.

    Args:
        path: the file; it is made if there is none.

    Raises:
        OSError: if the path is not a file, or the file holds something else.

    >>> import tempfile, optuna
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "study.log")
    ...     study = optuna.create_study(study_name="a", storage=journal_at(str(file)))
    ...     written = file.write_bytes(file.read_bytes() + b'{"op_code":1')
    ...     study.set_user_attr("killed", "once")
    ...     optuna.load_study(study_name="a", storage=journal_at(str(file))).user_attrs
    {'killed': 'once'}
    """
    # It is opened again and again, also from another folder; and Optuna's lock is a link to it, which would be relative
    # to the folder of the lock.
    path = os.path.abspath(os.path.expanduser(path))
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"{path} is not a file.")
    _refuse_foreign(path)
    return JournalStorage(_TellingBackend(path, _MendingLock(path)))


class _TellingBackend(JournalFileBackend):
    """Raises the error of an unreachable database where a disk is full or a folder is gone."""

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        with _as_of_storage():
            yield from super().read_logs(log_number_from)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        with _as_of_storage():
            super().append_logs(logs)


@contextmanager
def _as_of_storage() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageInternalError(str(error)) from error


class _MendingLock(JournalFileSymlinkLock):
    """Makes each writer begin on a new line.

    The kernel may stop a write between two pages of memory when its process is killed. Optuna ignores half a line at
    the end; but if the next line followed directly, both would be one, and the journal could not be read any more.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._path = path

    def acquire(self) -> bool:
        """Wait for the lock, and drop a half-written line of an earlier writer."""
        taken = super().acquire()
        try:
            _drop_half_a_line(self._path)
        except BaseException:
            self.release()
            raise
        return taken


def _refuse_foreign(path: str) -> None:
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        beginning = file.read(len(_BEGINNING))
    # The first writer may have been killed in the middle of it.
    if not _BEGINNING.startswith(beginning):
        raise OSError(f"{path} does not hold a journal; name a new file.")


def _drop_half_a_line(path: str) -> None:
    with open(path, "r+b") as file:
        if not file.seek(0, os.SEEK_END):
            return
        file.seek(-1, os.SEEK_END)
        if file.read() != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
