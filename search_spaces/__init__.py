"""The numbers a search may try: one space, one file. A space is a function; see ``SearchSpace``.

To write one, copy ``default``: ``choices`` turns patterns and values into Optuna distributions. Or write a TOML file.
"""

import os
from collections.abc import Mapping
from types import MappingProxyType

from autopipe.errors import ArgumentError
from autopipe.search_spaces._asked import ask
from autopipe.search_spaces._base import SearchSpace, choices, doubling, per_core
from autopipe.search_spaces.default import default
from autopipe.search_spaces.from_toml import from_toml
from autopipe.search_spaces.low_memory import low_memory
from autopipe.search_spaces.remote_storage import remote_storage
from autopipe.search_spaces.throughput import throughput

__all__ = [
    "SPACES",
    "SearchSpace",
    "ask",
    "by_name",
    "choices",
    "default",
    "doubling",
    "from_toml",
    "low_memory",
    "per_core",
    "remote_storage",
    "throughput",
]

SPACES: Mapping[str, SearchSpace] = MappingProxyType(
    {
        "default": default,
        "low_memory": low_memory,
        "remote_storage": remote_storage,
        "throughput": throughput,
    }
)


def by_name(name: SearchSpace | str | os.PathLike[str]) -> SearchSpace:
    """Return one of :data:`SPACES` by its name, or the space in a TOML file by its path; a function is returned as is.

    Raises:
        ArgumentError: if there is no such space, or the file breaks the form of :func:`from_toml`.

    >>> by_name("low_memory") is low_memory
    True
    """
    if callable(name):
        return name
    if isinstance(name, str) and name in SPACES:
        return SPACES[name]
    if isinstance(name, str | os.PathLike) and str(name).endswith(".toml"):
        return from_toml(name)
    raise ArgumentError(
        f"A search space must be one of {', '.join(SPACES)}, a file that ends in .toml, or a function of the knobs and "
        f"the machine, but got {name!r}."
    )
