"""Optuna studies that several processes and machines may share, and that survive any of them."""

from __future__ import annotations

import os
import re
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from typing import Any
from weakref import WeakKeyDictionary

from autopipe.arguments import MOST_SEED, one_of, seed_or_none
from autopipe.environment import boot_id
from autopipe.errors import ArgumentError, AutopipeError, StorageError
from autopipe.sentences import one_sentence

__all__ = [
    "PRUNERS",
    "SAMPLERS",
    "complete",
    "fail_abandoned",
    "load_optuna",
    "open_study",
    "quiet_optuna",
    "reaching_storage",
    "refuse_other_choices",
    "refuse_other_direction",
    "shown",
    "signed",
    "tell",
]

SAMPLERS = ("tpe", "random")
PRUNERS = ("median", "none")
_SIGNED_BY, _SEEN_AT = "autopipe:process", "autopipe:seen"
# A process gives a sign of life at this interval, however long its trial takes.
_SIGN_SECONDS = 60.0
# A process that cannot be looked up from here counts as dead if it gave no sign for the first time by the clocks of
# both machines, and none while it was watched for the second, since the clocks may differ, or a machine may have been
# asleep.
_SILENT_SECONDS, _LOOKED_AT_SECONDS = 900.0, 150.0
# Signing a trial takes milliseconds; a process that has not done so by then was killed in between.
_UNSIGNED_SECONDS = 60.0
# When this process first saw each trial of a study with its latest sign, by its number: the time in the sign itself is
# by the clock of another machine.
_FIRST_SEEN: WeakKeyDictionary[Any, dict[tuple[int, Any], float]] = WeakKeyDictionary()
# In /proc/PID/stat: the states of ended processes, and the index of the start time among the fields after the state.
_ENDED_STATES, _START_FIELD = ("Z", "X"), 18
_JOURNAL = "journal:"
_CLIENTS = frozenset({"grpc", "redis", "sqlalchemy", "sqlite3"})
# If several processes open a new database at the same moment, one makes its tables, and the others find them half made.
_OPENINGS = 20
_OPENING_SECONDS = 0.1


def load_optuna() -> None:
    """Import Optuna on a separate thread.

    It keeps the error of each missing optional package, and with it the frames of the importing thread: those of a
    ``fit()``, say, with the model, the data and the callbacks. The separate thread has no such frames.
    """
    with ThreadPoolExecutor(1, "autopipe-import") as thread:
        thread.submit(import_module, "optuna").result()


def open_study(
    name: str | None = None,
    storage: str | None = None,
    *,
    sampler: str = "tpe",
    pruner: str = "median",
    seed: int | None = None,
) -> Any:
    """Open an Optuna study, or make it.

    Args:
        name: by which others find it in the storage.
        storage: any URL that Optuna takes, such as ``sqlite:///study.db`` or ``postgresql://...``, or
            ``journal:study.log`` for a journal file; ``None`` for memory.
        sampler: one of :data:`SAMPLERS`.
        pruner: one of :data:`PRUNERS`.
        seed: for the sampler.

    Raises:
        ArgumentError: if the storage cannot be opened, a name is unknown, the seed is invalid, or a study of that name
            does not maximize.

    >>> len(open_study().trials)
    0
    """
    with quiet_optuna():
        seed = seed_or_none("seed", seed)
        made = {"sampler": _sampler(sampler, seed), "pruner": _pruner(pruner)}
        try:
            study = _opened(study_name=name, storage=_storage(storage), **made)
        except AutopipeError:
            raise
        except Exception as error:
            raise ArgumentError(
                f"A storage must be one that Optuna can open, but with {shown(storage)!r} it says: "
                f"{one_sentence(error)} Name a database by its URL (sqlite:///study.db), or a file by "
                "journal:study.log."
            ) from error
        if seed is not None:
            # With the same seed, a continued study would draw again what was drawn at its beginning.
            study.sampler = _sampler(sampler, (seed + len(study.get_trials(deepcopy=False))) % (MOST_SEED + 1))
    # Optuna loads one of the same name whatever direction it has.
    refuse_other_direction(study)
    return study


def shown(storage: Any) -> Any:
    """Return a storage as it may be printed: without a password.

    >>> shown("postgresql://anna:secret@host/db"), shown("sqlite:///study.db")
    ('postgresql://anna:***@host/db', 'sqlite:///study.db')
    """
    if not isinstance(storage, str):
        return storage
    named = re.sub(r"(?i)([?&](?:ssl)?passw(?:or)?d=)[^&]*", r"\1***", storage)
    return re.sub(r"(?<=://)([^/:@]*):.*@", r"\1:***@", named)


def _opened(**named: Any) -> Any:
    """Open a study, or make it; retry while another process makes the tables of the same database."""
    import optuna

    for _ in range(_OPENINGS):
        try:
            return optuna.create_study(**named, direction="maximize", load_if_exists=True)
        except Exception as error:
            if type(error).__name__ != "IntegrityError" and "already exists" not in str(error):
                raise
        time.sleep(_OPENING_SECONDS)
    return optuna.create_study(**named, direction="maximize", load_if_exists=True)


def refuse_other_direction(study: Any) -> None:
    """Raise if a study does not maximize its one value.

    Raises:
        ArgumentError: if it minimizes, or wants several values.

    >>> refuse_other_direction(open_study())
    """
    directions = [direction.name.lower() for direction in study.directions]
    if directions != ["maximize"]:
        raise ArgumentError(
            f"A study must maximize one value, but {study.study_name!r} has {', '.join(directions)}. Take one of "
            'another name, or make one with optuna.create_study(direction="maximize").'
        )


def refuse_other_choices(study: Any, distributions: Mapping[str, Any]) -> None:
    """Raise if trials of a study chose among something else by the same name: Optuna cannot continue such a study.

    Args:
        study: an Optuna study.
        distributions: what each parameter may be here, by its name.

    Raises:
        ArgumentError: if one did.
    """
    from optuna.distributions import check_distribution_compatibility

    for trial in study.get_trials(deepcopy=False):
        for name in trial.distributions.keys() & distributions.keys():
            try:
                check_distribution_compatibility(trial.distributions[name], distributions[name])
            except ValueError as other:
                raise ArgumentError(
                    "A study must go on with the choices it began with, but it has tried "
                    f"{_told(trial.distributions[name])} for {name!r}, and here it is {_told(distributions[name])}. "
                    "With other cores, another space or another pipeline, take a study of another name."
                ) from other


@contextmanager
def signed(trial: Any) -> Iterator[None]:
    """Note in a trial which process runs it, and keep noting meanwhile that the process is alive.

    Raises:
        optuna.exceptions.UpdateFinishedTrialError: if another process has taken this one for dead already.
    """
    trial.set_user_attr(_SIGNED_BY, f"{_numbering()}:{os.getpid()}:{_started(os.getpid())}")
    trial.set_user_attr(_SEEN_AT, time.time())
    ended = Event()
    signing = Thread(target=_sign_until, args=(ended, trial), name="autopipe-sign", daemon=True)
    signing.start()
    try:
        yield
    finally:
        ended.set()
        signing.join()


def fail_abandoned(study: Any) -> int:
    """Mark the running trials of dead processes as failed, so that no process waits for them; return how many."""
    from optuna.trial import TrialState

    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    abandoned = [trial.number for trial in running if _is_abandoned(study, trial)]
    for number in abandoned:
        tell(study, number, None)
    return len(abandoned)


def tell(study: Any, trial: Any, value: float | None) -> bool:
    """Tell a study the value of a trial, ``None`` if it failed; return whether no other process has marked it failed.

    >>> study = open_study()
    >>> trial = study.ask()
    >>> tell(study, trial, None), tell(study, trial, 1.0)
    (True, False)
    """
    from optuna.exceptions import UpdateFinishedTrialError
    from optuna.trial import TrialState

    came_to = {"state": TrialState.FAIL} if value is None else {"values": value}
    try:
        told = study.tell(trial, **came_to, skip_if_finished=True)
    except UpdateFinishedTrialError:
        return False
    return value is None or told.state is not TrialState.FAIL


def complete(study: Any) -> int:
    """Return how many trials have ended, in whichever process."""
    from optuna.trial import TrialState

    return len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED)))


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Keep Optuna from printing a line for each trial, and from warning of experimental features."""
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)


@contextmanager
def reaching_storage(*, whatever: bool = False) -> Iterator[None]:
    """Raise a readable error if a storage cannot be reached any more.

    Args:
        whatever: whether to convert any error, where only a study is used: files, servers and samplers raise their own
            errors. By default it is only the error that Optuna raises for databases.

    Raises:
        StorageError: if it cannot be reached, or if the study fails otherwise.
    """
    from optuna.exceptions import StorageInternalError

    shows = Exception if whatever else StorageInternalError
    try:
        yield
    except AutopipeError:
        raise
    except shows as error:
        said = one_sentence(error.__cause__ or error)
        if not _is_of_storage(error):
            raise StorageError(
                "A study must propose trials, and accept their results, as long as it is searched, but it raised "
                f"{type(error).__name__}: {said} The trials so far are in it. Check its sampler."
            ) from error
        raise StorageError(
            f"The storage of a study must be reachable as long as it is searched, but it says: {said} The trials "
            "so far are in it: once it can be reached again, the same search continues from there."
        ) from error


def _is_of_storage(error: Exception) -> bool:
    """Return whether an error comes from files, a network, or Optuna's client of a database or server."""
    from optuna.exceptions import StorageInternalError

    return isinstance(error, OSError | StorageInternalError) or type(error).__module__.split(".")[0] in _CLIENTS


def _storage(text: str | None) -> Any:
    if text is not None and not isinstance(text, str):
        raise ArgumentError(
            f"storage must be a URL, journal:FILE, or None, but got {text!r}. An Optuna storage is given to "
            "optuna.create_study(storage=...), and the study to the search."
        )
    if text is None or not text.startswith(_JOURNAL):
        return text
    from autopipe.tuning.journal import journal_at

    return journal_at(text.removeprefix(_JOURNAL))


def _sampler(name: str, seed: int | None) -> Any:
    import optuna.samplers as of

    makers: dict[str, Callable[[], Any]] = {
        "tpe": lambda: of.TPESampler(seed=seed, multivariate=True, group=True, constant_liar=True, n_startup_trials=6),
        "random": lambda: of.RandomSampler(seed=seed),
    }
    return makers[one_of("sampler", name, makers)]()


def _pruner(name: str) -> Any:
    import optuna.pruners as of

    makers: dict[str, Callable[[], Any]] = {
        "median": lambda: of.MedianPruner(n_startup_trials=4),
        "none": of.NopPruner,
    }
    return makers[one_of("pruner", name, makers)]()


def _told(distribution: Any) -> str:
    choices = getattr(distribution, "choices", None)
    if choices is None:
        return f"{distribution.low} to {distribution.high}"
    return " or ".join(map(str, choices))


def _sign_until(ended: Event, trial: Any) -> None:
    while not ended.wait(_SIGN_SECONDS):
        # An error of the storage, or of the trial, is raised again where the trial reports.
        with suppress(Exception):
            trial.set_user_attr(_SEEN_AT, time.time())


def _is_abandoned(study: Any, trial: Any) -> bool:
    signature = str(trial.user_attrs.get(_SIGNED_BY, ""))
    if not signature:
        return _seconds_looked_at(study, trial, None) >= _UNSIGNED_SECONDS
    numbering, number, started = signature.rsplit(":", 2)
    found = _started(int(number)) if numbering == _numbering() else None
    if found is not None:
        return found != started
    sign = trial.user_attrs.get(_SEEN_AT, 0.0)
    looked_at = _seconds_looked_at(study, trial, sign)
    return looked_at >= _LOOKED_AT_SECONDS and bool(time.time() - sign > _SILENT_SECONDS)


def _seconds_looked_at(study: Any, trial: Any, sign: Any) -> float:
    """Return for how long this process has seen a trial with an unchanged sign."""
    now = time.monotonic()
    return now - _FIRST_SEEN.setdefault(study, {}).setdefault((trial.number, sign), now)


def _numbering() -> str:
    """Return what process numbers are unique in: a machine since its boot and, on Linux, a namespace."""
    namespace = ""
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return f"{socket.gethostname()}/{boot_id()}/{namespace}"


def _started(process: int) -> str | None:
    """Return when a process was started: its number may have been reused since. Empty if it is gone.

    The time is in ticks since boot, which setting the clock does not change. ``None`` if the system hides processes of
    other users (``hidepid``), and this may be one.
    """
    try:
        found = Path(f"/proc/{process}/stat").read_bytes()
    except PermissionError:
        return None
    except (FileNotFoundError, ProcessLookupError):
        return None if _is_of_another_user(process) else ""
    # The name before it may contain anything, also spaces and parentheses.
    state, *fields = found.rpartition(b")")[2].decode().split()
    return "" if state in _ENDED_STATES else fields[_START_FIELD]


def _is_of_another_user(process: int) -> bool:
    with suppress(ProcessLookupError):
        try:
            os.kill(process, 0)
        except PermissionError:
            return True
    return False
