"""What a process may really use of its machine: the cores, memory and threads that affinity and cgroups allow."""

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import psutil

__all__ = ["Machine", "queued_by_thread", "queued_since", "resident_bytes", "threads_left"]

# The user's limit of threads does not apply to a process with CAP_SYS_ADMIN or CAP_SYS_RESOURCE.
_FREE_OF_LIMITS = 1 << 21 | 1 << 24


@dataclass(frozen=True, slots=True)
class Machine:
    """The part of a machine that is open to this process.

    Attributes:
        cores: CPU cores it can keep busy: its affinity or its cgroups' CPU quota, whichever is less.
        memory_bytes: memory it can have in all: the host's or its cgroups' limit, whichever is less.
        available_bytes: memory it can still have; page cache that the kernel can drop counts as free.
        host: the name of the host.
    """

    cores: float
    memory_bytes: int
    available_bytes: int
    host: str

    @classmethod
    def here(cls, root: str | os.PathLike[str] = "/") -> "Machine":
        """Measure the machine this process runs on.

        Both versions of cgroups are read, and of nested groups the tightest limit holds.

        Args:
            root: where ``proc`` and ``sys`` are found; another folder describes another machine.

        >>> machine = Machine.here()
        >>> machine.cores > 0, 0 < machine.available_bytes <= machine.memory_bytes
        (True, True)
        """
        base = Path(root)
        total, available = _host_memory(base)
        cores = float(_allowed_cores(base))
        for group in _groups(base, "cpu"):
            cores = min(cores, _quota(group, cores))
        for group in _groups(base, "memory"):
            limit = _limit(group)
            if limit is not None:
                total = min(total, limit)
                available = min(available, max(limit - _unreclaimable(group), 0))
        return cls(cores, total, available, platform.node())


def threads_left(root: str | os.PathLike[str] = "/") -> int:
    """Return how many threads this process can still start, as far as the kernel tells.

    Its cgroups, its user (``ulimit -u``) and the kernel limit them; the tightest limit holds. TensorFlow ends the
    process if it cannot start a thread.

    Args:
        root: where ``proc`` and ``sys`` are found; another folder describes another machine.

    >>> threads_left() > 0
    True
    """
    base = Path(root)
    return max(min([*_left_by_groups(base), *_left_to_user(base), *_left_by_kernel(base)], default=sys.maxsize), 0)


def _left_by_groups(base: Path) -> Iterator[int]:
    for group in _groups(base, "pids"):
        most, used = _words(group / "pids.max"), _words(group / "pids.current")
        if most and used and most != ["max"]:
            yield int(most[0]) - int(used[0])


def _left_to_user(base: Path) -> Iterator[int]:
    most = [line.split()[2] for line in _lines(base / "proc/self/limits") if line.startswith("Max processes")]
    mine = _fields(base / "proc/self/status")
    if most in ([], ["unlimited"]) or int(mine.get("CapEff:", ["0"])[0], 16) & _FREE_OF_LIMITS:
        return
    all_there_are = map(_fields, base.glob("proc/[0-9]*/status"))
    # The first number of a Uid line is the real user, to whom the limit applies.
    of_user = [each for each in all_there_are if each.get("Uid:", [])[:1] == mine.get("Uid:", [])[:1]]
    yield int(most[0]) - sum(int(each["Threads:"][0]) for each in of_user if "Threads:" in each)


def _left_by_kernel(base: Path) -> Iterator[int]:
    running = _words(base / "proc/loadavg")[3:4]
    for limit in ("threads-max", "pid_max"):
        most = _words(base / "proc/sys/kernel" / limit)
        if most and running:
            yield int(most[0]) - int(running[0].partition("/")[2])


def resident_bytes() -> int:
    """Return the memory that this process holds now.

    >>> resident_bytes() > 0
    True
    """
    return int(_process(os.getpid()).memory_info().rss)


@lru_cache(maxsize=1)
def _process(number: int) -> psutil.Process:
    """Return this process, cached since finding it takes ten times as long as asking it; a fork has its own number."""
    return psutil.Process(number)


def _allowed_cores(base: Path) -> int:
    allowed = _fields(base / "proc/self/status").get("Cpus_allowed_list:")
    if not allowed:
        return len(os.sched_getaffinity(0))
    spans = [[int(end) for end in span.split("-")] for span in allowed[0].split(",")]
    return sum(span[-1] - span[0] + 1 for span in spans)


def _host_memory(base: Path) -> tuple[int, int]:
    kibibytes = _fields(base / "proc/meminfo")
    try:
        return int(kibibytes["MemTotal:"][0]) * 1024, int(kibibytes["MemAvailable:"][0]) * 1024
    except KeyError:
        memory = psutil.virtual_memory()
        return memory.total, memory.available


def queued_by_thread() -> dict[str, float]:
    """Return how many seconds each thread of this process has waited for a core; empty if the kernel does not tell.

    >>> all(seconds >= 0 for seconds in queued_by_thread().values())
    True
    """
    threads = {thread.name: _words(thread / "schedstat") for thread in Path("/proc/self/task").glob("*")}
    return {name: int(words[1]) / 1e9 for name, words in threads.items() if len(words) == 3}


def queued_since(before: Mapping[str, float]) -> float:
    """Return how many seconds the threads running now have waited for a core since ``before``.

    A thread that has ended meanwhile is left out: its waiting is lost, and must not be subtracted from the others'.

    >>> queued_since(queued_by_thread()) >= 0
    True
    """
    # A thread that has waited less than before is a new one with the same number.
    return sum(max(waited - before.get(thread, 0.0), 0.0) for thread, waited in queued_by_thread().items())


def _groups(base: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of the cgroups that contain this process, from its own upward, in either version."""
    named: dict[str, str] = {}
    for line in _lines(base / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        named.update(dict.fromkeys(controllers.split(","), path))  # version 2 has no name: ""
    for line in _lines(base / "proc/self/mountinfo"):
        mount, _, system = line.partition(" - ")
        kind, _, options = system.split(" ", 2)
        if kind == "cgroup2":
            group = named.get("")
        elif kind == "cgroup" and controller in options.split(","):
            group = named.get(controller)
        else:
            continue
        if group is not None:
            mounted, at = mount.split(" ")[3:5]
            yield from _upward(base / at.lstrip("/"), group, mounted)


def _upward(top: Path, path: str, mounted: str) -> Iterator[Path]:
    # A container sees its own group mounted at the top, while the kernel may name it as the host does.
    inside = os.path.relpath(path, mounted)
    group = top if inside.startswith("..") else top / inside
    if not group.is_dir():
        group = top
    while group != top:
        yield group
        group = group.parent
    yield top


def _quota(group: Path, unlimited: float) -> float:
    version_1 = [*_words(group / "cpu.cfs_quota_us"), *_words(group / "cpu.cfs_period_us")]
    microseconds = _words(group / "cpu.max") or version_1
    if len(microseconds) != 2 or microseconds[0] in {"max", "-1"}:
        return unlimited
    return int(microseconds[0]) / int(microseconds[1])


def _limit(group: Path) -> int | None:
    words = _words(group / "memory.max") or _words(group / "memory.limit_in_bytes")
    return None if words in ([], ["max"]) else int(words[0])


def _unreclaimable(group: Path) -> int:
    used = _words(group / "memory.current") or _words(group / "memory.usage_in_bytes") or ["0"]
    cache = _fields(group / "memory.stat")
    # Version 1 counts the groups below in "total_" fields only; version 2 always counts them.
    droppable = cache.get("total_inactive_file") or cache.get("inactive_file") or ["0"]
    return max(int(used[0]) - int(droppable[0]), 0)


def _lines(file: Path) -> list[str]:
    try:
        # Names of processes and mount points may have any bytes, and be cut anywhere.
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _words(file: Path) -> list[str]:
    return " ".join(_lines(file)).split()


def _fields(file: Path) -> dict[str, list[str]]:
    return {words[0]: words[1:] for words in map(str.split, _lines(file)) if words}
