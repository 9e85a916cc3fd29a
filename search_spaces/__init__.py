"""The numbers a search may try: one space, one file. A space is a function; see ``SearchSpace``."""

from autopipe.search_spaces._base import SearchSpace
from autopipe.search_spaces.default import default

__all__ = ["SearchSpace", "default"]
