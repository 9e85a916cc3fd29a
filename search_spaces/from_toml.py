"""A space that a user writes as a TOML file, without any Python."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autopipe.errors import ArgumentError
from autopipe.search_spaces._base import SearchSpace, choices, doubling, matches

if TYPE_CHECKING:
    from autopipe.pipeline.knobs import Knob
    from autopipe.planning.memory.machine import Machine

__all__ = ["Written", "from_toml"]

_EXAMPLE = 'match = "map*.num_parallel_calls" and values = [1, 2, 4], or low = 1, high = 64 and log = true'
_MOST_STEPS = 16


def from_toml(path: str | os.PathLike[str]) -> SearchSpace:
    r"""Read a search space.

    Each ``[[knob]]`` of the file names knobs by a pattern, in which ``*`` stands for anything, and what they may be:
    ``values``, or a range from ``low`` to ``high``. With ``log = true`` a range is tried by doubling; otherwise at up
    to 16 values. If two patterns match a knob, the first applies. Values that a knob cannot have are left out.

    Raises:
        ArgumentError: if the file cannot be read or breaks this form; and, when a search asks the space, if a pattern
            matches no knob of the pipeline.

    >>> import tempfile
    >>> from autopipe.pipeline.knobs import Knob
    >>> from autopipe.planning.memory.machine import Machine
    >>> with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
    ...     _ = file.write('[[knob]]\nmatch = "map*.num_parallel_calls"\nlow = 2\nhigh = 16\nlog = true')
    ...     file.flush()
    ...     space = from_toml(file.name)
    >>> space([Knob("map[load].num_parallel_calls", "num_parallel_calls", -1)], Machine.here())
    {'map[load].num_parallel_calls': CategoricalDistribution(choices=(2, 4, 8, 16))}
    """
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(f"A search space must be the path of a TOML file, but got {path!r}.")
    where = os.fspath(path)
    content = _parsed(where)
    unknown = sorted(set(content) - {"knob"})
    if unknown:
        raise ArgumentError(_law(where, f"holds the unknown key {unknown[0]!r}"))
    entries = content.get("knob")
    if not isinstance(entries, list) or not entries or not all(isinstance(each, dict) for each in entries):
        raise ArgumentError(_law(where, "holds no [[knob]]"))
    values: dict[str, Sequence[int]] = {}
    for number, entry in enumerate(entries, start=1):
        pattern = _pattern(entry, f"knob {number} of {where}")
        values.setdefault(pattern, _values(entry, f"knob {number} of {where}"))
    return Written(where, values)


@dataclass(frozen=True)
class Written:
    """The space of a file: what the knobs may be, by pattern."""

    where: str
    values: Mapping[str, Sequence[int]]

    def __call__(self, knobs: Sequence[Knob], machine: Machine) -> dict[str, Any]:
        """Return the values of each knob that a pattern matches.

        Raises:
            ArgumentError: if all values of a pattern are outside the limits of the knobs it matches.
        """
        for pattern, values in self.values.items():
            named = [knob for knob in knobs if matches(pattern, knob.name)]
            if named and not any(knob.accepts(value) for knob in named for value in values):
                raise ArgumentError(
                    f"The values for {named[0].name} must be within its limits, {_limits(named[0])}, but {self.where} "
                    f"has {list(values)}. Give it a value within them."
                )
        return choices(knobs, self.values, strict=True)

    def refuse_unmatched(self, knobs: Sequence[Knob]) -> None:
        """Raise if a pattern matches none of the knobs: it is misspelt.

        Raises:
            ArgumentError: if one does.
        """
        for pattern in self.values:
            if not any(matches(pattern, knob.name) for knob in knobs):
                known = ", ".join(dict.fromkeys(knob.name for knob in knobs)) or "none"
                raise ArgumentError(
                    f"A match must name a knob of the pipeline, but {pattern!r} in {self.where} names none. "
                    f"Its knobs: {known}."
                )


def _limits(knob: Knob) -> str:
    return f">= {knob.least}" if knob.most is None else f"{knob.least} to {knob.most}"


def _parsed(where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(where).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ArgumentError(_law(where, f"cannot be read ({error})")) from None


def _pattern(entry: Mapping[str, Any], where: str) -> str:
    unknown = sorted(set(entry) - {"match", "values", "low", "high", "log"})
    if unknown:
        raise ArgumentError(_form(where, f"has the unknown key {unknown[0]!r}"))
    pattern = entry.get("match")
    if not isinstance(pattern, str) or not pattern:
        raise ArgumentError(_form(where, f"has match = {pattern!r}" if "match" in entry else "has no match"))
    return pattern


def _values(entry: Mapping[str, Any], where: str) -> Sequence[int]:
    """Return what the knobs of an entry may be, in one of its two forms."""
    if "values" in entry:
        others = sorted(set(entry) & {"low", "high", "log"})
        if others:
            raise ArgumentError(_form(where, f"has both values and {others[0]}"))
        return _listed(entry["values"], where)
    missing = sorted({"low", "high"} - set(entry))
    if missing:
        raise ArgumentError(_form(where, f"has neither values nor {missing[-1]}"))
    low, high, log = entry["low"], entry["high"], entry.get("log", False)
    if not (_is_whole(low) and _is_whole(high) and low <= high):
        raise ArgumentError(
            _form(where, f"has low = {low!r} and high = {high!r}", "low and high must be whole numbers, low <= high")
        )
    if not isinstance(log, bool) or (log and low < 1):
        raise ArgumentError(
            _form(where, f"has log = {log!r} and low = {low!r}", "log must be true or false, and with it low >= 1")
        )
    return sorted({*doubling(low, high), high}) if log else _spread(low, high)


def _listed(values: Any, where: str) -> Sequence[int]:
    if not isinstance(values, list) or not values or not all(map(_is_whole, values)):
        raise ArgumentError(_form(where, f"has values = {values!r}", "values must be a list of whole numbers"))
    return values


def _spread(low: int, high: int) -> list[int]:
    """Return all numbers from ``low`` to ``high``, or 16 of them, evenly spaced."""
    steps = min(high - low, _MOST_STEPS - 1)
    return sorted({low + round((high - low) * step / max(steps, 1)) for step in range(steps + 1)})


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _law(where: str, received: str) -> str:
    return f"A search space must be a TOML file of [[knob]] tables, but {where} {received}. Write in each: {_EXAMPLE}."


def _form(where: str, received: str, law: str = "A [[knob]] must have match, and values or low and high") -> str:
    return f"{law}, but {where} {received}. Write: {_EXAMPLE}."
