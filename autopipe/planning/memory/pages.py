"""The size of the pages in which the kernel gives this process its memory.

A cache of a GiB in pages of 4 KiB takes 262,144 of them, each with a page fault. Linux gives pages of 2 MiB on request
(``transparent_hugepage=madvise``), and the C library requests them if it is set to before the process starts:
https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ASKING", "ASKING_TEXT", "HugePages"]

ASKING = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
ASKING_TEXT = " ".join(map("=".join, ASKING.items()))
_SETTING = "sys/kernel/mm/transparent_hugepage/enabled"
# The first version of glibc with that setting.
_ASKS_SINCE = (2, 35)


@dataclass(frozen=True, slots=True)
class HugePages:
    """Whether memory comes 2 MiB at a time.

    Attributes:
        setting: the kernel's setting: ``always``, ``madvise`` (on request) or ``never``.
        asked: whether the C library of this process requests them.
        can_ask: whether it could.
    """

    setting: str
    asked: bool
    can_ask: bool

    @classmethod
    def here(
        cls,
        root: str | os.PathLike[str] = "/",
        environment: Mapping[str, str] = os.environ,
        libc: tuple[str, str] | None = None,
    ) -> HugePages | None:
        """Return what applies to this process; ``None`` if another mechanism decides.

        That is so if the kernel has no such setting, or the C library is set to take reserved huge pages.

        Args:
            root: where ``sys`` is found.
            environment: the variables that the process was started with.
            libc: the C library and its version; by default those of this process.
        """
        try:
            chosen = re.search(r"\[(\w+)\]", (Path(root) / _SETTING).read_text())
        except OSError:
            return None
        told = re.search(r"(?:^|:)glibc\.malloc\.hugetlb=(\d+)", environment.get("GLIBC_TUNABLES", ""))
        manner = int(told[1]) if told else 0
        if chosen is None or manner > 1:
            return None
        can_ask = _asks(*(libc or platform.libc_ver()))
        return cls(chosen[1], can_ask and manner == 1, can_ask)

    @property
    def given(self) -> bool:
        """Whether memory comes 2 MiB at a time."""
        return self.setting == "always" or (self.setting == "madvise" and self.asked)

    @property
    def would_be_given(self) -> bool:
        """Whether only a request of this process is missing."""
        return self.setting == "madvise" and self.can_ask and not self.asked


def _asks(name: str, version: str) -> bool:
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    return name == "glibc" and numbers >= _ASKS_SINCE
