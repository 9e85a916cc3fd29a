import hashlib
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pytest

from autopipe.planning.memory.machine import (
    Machine,
    queued_by_thread,
    queued_since,
    threads_left,
)

GIB = 2**30
VERSION_2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
VERSION_1 = (
    "31 24 0:28 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs ro,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 / /sys/fs/cgroup/memory rw master:2 - cgroup cgroup rw,memory\n"
)
CPU_1 = "sys/fs/cgroup/cpu,cpuacct"
MEMORY_1 = "sys/fs/cgroup/memory"
JOB_1 = "5:cpu,cpuacct:/slurm/job\n4:memory:/slurm/job\n1:name=systemd:/user\n"


def machine(root: Path, files: Mapping[str, object]) -> Machine:
    """Read a host of 8 cores and 64 GiB, 40 of them available, with ``files`` in its /proc and /sys."""
    host = {
        "proc/self/status": "Name:\tpython\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n",
        "proc/meminfo": f"MemTotal: {64 * 2**20} kB\nMemFree: 1 kB\nMemAvailable: {40 * 2**20} kB\n",
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": VERSION_2,
    }
    for name, text in {**host, **files}.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(text))
    return Machine.here(root)


def test_the_machine_of_the_tests_is_within_its_own_bounds() -> None:
    here = Machine.here()
    assert 0 < here.cores <= len(os.sched_getaffinity(0))
    assert 0 < here.available_bytes <= here.memory_bytes <= psutil.virtual_memory().total
    assert here.host == platform.node()


def test_names_that_are_cut_in_the_midst_of_a_letter_are_read_over(tmp_path: Path) -> None:
    machine(tmp_path, {})
    (tmp_path / "proc/self/status").write_bytes("Name:\tabcdefghijklmnä".encode()[:-1] + b"\nCpus_allowed_list:\t0-3\n")
    assert Machine.here(tmp_path).cores == 4


def test_without_cgroups_all_of_the_host_is_open(tmp_path: Path) -> None:
    here = machine(tmp_path, {"proc/self/cgroup": "", "proc/self/mountinfo": ""})
    assert (here.cores, here.memory_bytes, here.available_bytes) == (8, 64 * GIB, 40 * GIB)


def test_where_proc_is_silent_the_process_is_asked(tmp_path: Path) -> None:
    here = Machine.here(tmp_path)
    assert here.cores == len(os.sched_getaffinity(0))
    assert here.memory_bytes == psutil.virtual_memory().total


@pytest.mark.parametrize(("allowed", "cores"), [("3", 1), ("0-1", 2), ("0,2-3,6", 4)])
def test_affinity_limits_the_cores(tmp_path: Path, allowed: str, cores: int) -> None:
    assert machine(tmp_path, {"proc/self/status": f"Cpus_allowed_list:\t{allowed}\n"}).cores == cores


def test_a_quota_larger_than_the_affinity_limits_nothing(tmp_path: Path) -> None:
    assert machine(tmp_path, {"sys/fs/cgroup/cpu.max": "1600000 100000"}).cores == 8


@pytest.mark.parametrize(("inner", "outer", "cores"), [("150000", "400000", 1.5), ("max", "250000", 2.5)])
def test_the_tightest_quota_of_nested_groups_holds_in_version_2(
    tmp_path: Path, inner: str, outer: str, cores: float
) -> None:
    files = {
        "proc/self/cgroup": "0::/pod/container\n",
        "sys/fs/cgroup/pod/cpu.max": f"{outer} 100000\n",
        "sys/fs/cgroup/pod/container/cpu.max": f"{inner} 100000\n",
    }
    assert machine(tmp_path, files).cores == cores


def test_the_tightest_memory_limit_of_nested_groups_holds_in_version_2(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/pod/container\n",
        "sys/fs/cgroup/pod/memory.max": 8 * GIB,
        "sys/fs/cgroup/pod/memory.current": 6 * GIB,
        "sys/fs/cgroup/pod/memory.stat": f"anon 5\nactive_file 7\ninactive_file {GIB}\n",
        "sys/fs/cgroup/pod/container/memory.max": "max\n",
        "sys/fs/cgroup/pod/container/memory.current": 2 * GIB,
    }
    here = machine(tmp_path, files)
    assert here.memory_bytes == 8 * GIB
    assert here.available_bytes == 3 * GIB


def test_the_limit_and_what_is_left_may_come_from_different_groups(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/pod/container\n",
        "sys/fs/cgroup/pod/memory.max": 8 * GIB,
        "sys/fs/cgroup/pod/memory.current": 7 * GIB,
        "sys/fs/cgroup/pod/container/memory.max": 4 * GIB,
        "sys/fs/cgroup/pod/container/memory.current": 1 * GIB,
    }
    here = machine(tmp_path, files)
    assert (here.memory_bytes, here.available_bytes) == (4 * GIB, 1 * GIB)


def test_a_limit_above_what_the_host_has_limits_nothing(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/memory.max": 900 * GIB, "sys/fs/cgroup/memory.current": 0}
    here = machine(tmp_path, files)
    assert (here.memory_bytes, here.available_bytes) == (64 * GIB, 40 * GIB)


def test_a_group_over_its_limit_has_nothing_left(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/memory.max": GIB, "sys/fs/cgroup/memory.current": 2 * GIB}
    assert machine(tmp_path, files).available_bytes == 0


def test_version_1_is_read_from_its_own_hierarchies(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": JOB_1,
        "proc/self/mountinfo": VERSION_1,
        f"{CPU_1}/slurm/cpu.cfs_quota_us": 300000,
        f"{CPU_1}/slurm/cpu.cfs_period_us": 100000,
        f"{CPU_1}/slurm/job/cpu.cfs_quota_us": -1,
        f"{CPU_1}/slurm/job/cpu.cfs_period_us": 100000,
        f"{MEMORY_1}/slurm/job/memory.limit_in_bytes": 4 * GIB,
        f"{MEMORY_1}/slurm/job/memory.usage_in_bytes": 3 * GIB,
        f"{MEMORY_1}/slurm/job/memory.stat": f"inactive_file 5\ntotal_inactive_file {2 * GIB}\n",
        f"{MEMORY_1}/memory.limit_in_bytes": 0x7FFFFFFFFFFFF000,
        f"{MEMORY_1}/memory.usage_in_bytes": 50 * GIB,
    }
    here = machine(tmp_path, files)
    assert (here.cores, here.memory_bytes, here.available_bytes) == (3, 4 * GIB, 3 * GIB)


def test_version_1_without_limits_leaves_all_of_the_host(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": JOB_1,
        "proc/self/mountinfo": VERSION_1,
        f"{CPU_1}/slurm/job/cpu.cfs_quota_us": -1,
        f"{MEMORY_1}/slurm/job/memory.limit_in_bytes": 0x7FFFFFFFFFFFF000,
    }
    here = machine(tmp_path, files)
    assert (here.cores, here.memory_bytes, here.available_bytes) == (8, 64 * GIB, 40 * GIB)


@pytest.mark.parametrize(
    ("group", "mounted"),
    [("/docker/ab12", "/docker/ab12"), ("/docker/ab12", "/"), ("/../../ab12", "/")],
    ids=["bind mount of the group", "named as the host does", "outside the namespace"],
)
def test_a_container_reads_its_limits_at_the_top_of_what_it_sees(tmp_path: Path, group: str, mounted: str) -> None:
    files = {
        "proc/self/cgroup": f"0::{group}\n",
        "proc/self/mountinfo": f"30 24 0:26 {mounted} /sys/fs/cgroup ro - cgroup2 cgroup ro\n",
        "sys/fs/cgroup/cpu.max": "50000 100000",
        "sys/fs/cgroup/memory.max": GIB,
    }
    here = machine(tmp_path, files)
    assert (here.cores, here.memory_bytes, here.available_bytes) == (0.5, GIB, GIB)


def test_both_versions_at_once_each_have_their_say(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": JOB_1 + "0::/user\n",
        "proc/self/mountinfo": VERSION_1 + VERSION_2.replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified "),
        "sys/fs/cgroup/unified/user/cpu.max": "100000 100000",
        f"{MEMORY_1}/slurm/job/memory.limit_in_bytes": 2 * GIB,
    }
    here = machine(tmp_path, files)
    assert (here.cores, here.memory_bytes) == (1, 2 * GIB)


def test_the_tests_may_start_a_thread() -> None:
    assert threads_left() > 0


PIDS_1 = "34 31 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
ROOM = {"proc/loadavg": "0.1 0.1 0.1 2/900 5123\n", "proc/sys/kernel/threads-max": "10900\n"}
LIMITS = "Limit  Soft Limit  Hard Limit  Units\nMax processes             60         70         processes\n"


def of_user(uid: int, threads: int, capabilities: str = "0") -> str:
    return f"Name:\tpython\nUid:\t{uid}\t0\t0\t0\nThreads:\t{threads}\nCapEff:\t{capabilities}\n"


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, 10_000),
        ({"proc/sys/kernel/pid_max": 1000}, 100),
        ({"sys/fs/cgroup/pids.max": "max", "sys/fs/cgroup/pids.current": 5}, 10_000),
        ({"sys/fs/cgroup/pids.max": 100, "sys/fs/cgroup/pids.current": 40}, 60),
        ({"sys/fs/cgroup/pids.max": 100, "sys/fs/cgroup/pids.current": 140}, 0),
        (
            {
                "proc/self/cgroup": "3:pids:/slurm/job\n",
                "proc/self/mountinfo": VERSION_1 + PIDS_1,
                "sys/fs/cgroup/pids/slurm/pids.max": 100,
                "sys/fs/cgroup/pids/slurm/pids.current": 70,
                "sys/fs/cgroup/pids/slurm/job/pids.max": "max",
                "sys/fs/cgroup/pids/slurm/job/pids.current": 60,
            },
            30,
        ),
    ],
    ids=["kernel", "its numbers", "group without limit", "version 2", "over its limit", "version 1"],
)
def test_the_tightest_limit_of_threads_holds(tmp_path: Path, files: Mapping[str, object], left: int) -> None:
    machine(tmp_path, {**ROOM, **files})
    assert threads_left(tmp_path) == left


@pytest.mark.parametrize(
    ("capabilities", "left"), [("0", 45), ("1000000", 10_000), ("200000", 10_000)], ids=["none", "resource", "admin"]
)
def test_the_threads_of_all_processes_of_a_user_count_unless_it_is_free_of_limits(
    tmp_path: Path, capabilities: str, left: int
) -> None:
    files = {
        "proc/self/status": of_user(1000, 5, capabilities),
        "proc/7/status": of_user(1000, 5),
        "proc/8/status": of_user(1000, 10),
        "proc/9/status": of_user(1001, 500),
        "proc/self/limits": LIMITS,
    }
    machine(tmp_path, {**ROOM, **files})
    assert threads_left(tmp_path) == left


def test_where_nothing_limits_threads_there_are_more_than_anybody_starts(tmp_path: Path) -> None:
    machine(tmp_path, {"proc/self/limits": LIMITS.replace("60 ", "unlimited ")})
    assert threads_left(tmp_path) == sys.maxsize


FORKED = """
import os
from autopipe.planning.memory.machine import resident_bytes
before = resident_bytes()
child = os.fork()
if child:
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
held = bytearray(os.urandom(64 * 2**20))
os._exit(0 if resident_bytes() > before + 32 * 2**20 else 1)
"""


def test_a_forked_process_is_told_its_own_memory():
    assert subprocess.run([sys.executable, "-c", FORKED], check=False).returncode == 0


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel does not tell")
def test_threads_that_wait_for_a_core_are_told_from_those_that_sleep() -> None:
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            hashlib.pbkdf2_hmac("sha256", b"", b"", 20_000)

    def queued_among(run: Callable[[], object]) -> float:
        over.clear()
        threads = [threading.Thread(target=run) for _ in range(4 * (os.cpu_count() or 1))]
        before = queued_by_thread()
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        queued = queued_since(before)
        over.set()
        for thread in threads:
            thread.join()
        return queued

    assert queued_among(work) > 2 * queued_among(over.wait)


@pytest.mark.parametrize("number", ["ended", str(os.getpid())], ids=["its own", "reused"])
def test_what_a_thread_waited_that_has_ended_is_not_taken_from_the_others(number: str) -> None:
    assert queued_since({number: 1e6}) >= 0
