"""Whether memory comes 2 MiB at a time, and what is missing where it does not."""

import os
import subprocess
import sys

import pytest

from autopipe.planning.memory.pages import ASKING, HugePages

SETTINGS = ("always", "madvise", "never")
NEW, OLD, OTHER = ("glibc", "2.36"), ("glibc", "2.34"), ("", "")


@pytest.fixture
def kernel(tmp_path):
    """Return what makes a machine whose kernel has a setting, and where it is found."""

    def with_setting(chosen):
        file = tmp_path / "sys/kernel/mm/transparent_hugepage/enabled"
        file.parent.mkdir(parents=True)
        file.write_text(" ".join(f"[{each}]" if each == chosen else each for each in SETTINGS) + "\n")
        return tmp_path

    return with_setting


TOLD_MORE = {"GLIBC_TUNABLES": "glibc.malloc.check=1:glibc.malloc.hugetlb=1"}
TOLD_NOT_TO = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"}
RESERVED = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"}


@pytest.mark.parametrize(
    ("setting", "environment", "libc", "expected"),
    [
        ("always", {}, NEW, "given"),
        ("madvise", ASKING, NEW, "given"),
        ("madvise", TOLD_MORE, NEW, "given"),
        ("madvise", {}, NEW, "to be asked for"),
        ("madvise", TOLD_NOT_TO, NEW, "to be asked for"),
        ("madvise", ASKING, OLD, "not given"),
        ("madvise", {}, OLD, "not given"),
        ("madvise", {}, OTHER, "not given"),
        ("never", ASKING, NEW, "not given"),
    ],
)
def test_large_pages_are_given_to_all_or_to_who_asks(kernel, setting, environment, libc, expected):
    pages = HugePages.here(kernel(setting), environment, libc)
    assert pages.setting == setting
    assert pages.given is (expected == "given")
    assert pages.would_be_given is (expected == "to be asked for")


def test_nothing_is_said_where_the_kernel_has_no_such_setting_or_pages_that_are_set_aside_are_used(kernel, tmp_path):
    assert HugePages.here(tmp_path) is None
    assert HugePages.here(kernel("madvise"), RESERVED, NEW) is None


def test_a_process_that_is_told_to_ask_is_given_large_pages():
    here = HugePages.here(environment={})
    if here is None or not here.would_be_given:
        pytest.skip("this kernel gives large pages to all, or to nobody, or the C library cannot ask")
    code = """
import ctypes, re
from pathlib import Path
libc, size = ctypes.CDLL(None), 2**26
libc.malloc.restype = ctypes.c_void_p
ctypes.memset(libc.malloc(ctypes.c_size_t(size)), 1, size)
print(re.search(r"AnonHugePages: +([0-9]+) kB", Path("/proc/self/smaps_rollup").read_text())[1])
"""

    def kilobytes(asking):
        environment = {name: value for name, value in os.environ.items() if name not in ASKING} | asking
        return int(
            subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout
        )

    assert kilobytes({}) < 2**14
    assert kilobytes(ASKING) > 2**15
