"""Whether the fields of a plan are valid: it may come from anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from reprlib import repr as shortened
from typing import Any

from autopipe.pipeline.knob_limits import largest_number

__all__ = ["first_wrong"]

_PROMISES = ("sequence", "elements", "training")
_DEEPEST = 4
_CORES = (0.01, 1_000_000)


def first_wrong(content: dict[str, Any], known: Sequence[str]) -> str | None:
    """Return what is wrong with the fields of a plan; ``None`` if nothing is.

    Args:
        content: what its JSON holds.
        known: the fields it may have.

    >>> first_wrong({"fingerprint": "ab12", "knobs": {"prefetch.buffer_size": "many"}}, ["fingerprint", "knobs"])
    'its knobs are not all whole numbers'
    """
    kinds: dict[str, type] = {"fingerprint": str, "keeps": str, "rules": list, "places": list}
    kinds.update(dict.fromkeys(("knobs", "machine", "measured", "versions"), dict))
    unknown = sorted(set(content) - set(known))
    if unknown:
        return f"it has the unknown field {shortened(unknown[0])}"
    if "fingerprint" not in content:
        return "it has no fingerprint"
    for name, kind in kinds.items():
        if name in content and not isinstance(content[name], kind):
            return f"its {name} is a {type(content[name]).__name__}"
    if content.get("keeps", _PROMISES[0]) not in _PROMISES:
        return f"its keeps is {shortened(content['keeps'])}, and not one of {', '.join(_PROMISES)}"
    for name, texts in (("rules", content.get("rules", ())), ("versions", content.get("versions", {}).values())):
        if not all(isinstance(text, str) for text in texts):
            return f"its {name} are not all texts"
    elsewhere = content.get("measured", {}).get("machine", {})
    if not isinstance(elsewhere, dict):
        return "the machine in its measured is not an object"
    wrong = _flaw(content, _DEEPEST) or _wrong_place(content) or _wrong_knob(content.get("knobs", {}))
    return wrong or _wrong_machine(content.get("machine", {})) or _wrong_machine(elsewhere)


def _flaw(value: Any, levels: int) -> str | None:
    if isinstance(value, str) and not value.isprintable():
        return f"is a text that cannot be printed: {shortened(value)}"
    if not isinstance(value, dict | list):
        return None
    if not levels:
        return "its fields are nested too deeply"
    parts = [*value, *value.values()] if isinstance(value, dict) else value
    return next((flaw for part in parts if (flaw := _flaw(part, levels - 1))), None)


def _wrong_place(content: dict[str, Any]) -> str | None:
    rules, places = content.get("rules", []), content.get("places", [])
    if not all(isinstance(place, int) and not isinstance(place, bool) and place >= 0 for place in places):
        return "its places are not all whole numbers from 0 on"
    if places and len(places) != len(rules):
        return f"its places are {len(places)}, and not one for each of its {len(rules)} rules"
    return None


def _wrong_knob(knobs: dict[str, Any]) -> str | None:
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in knobs.values()):
        return "its knobs are not all whole numbers"
    for name, number in knobs.items():
        most = largest_number(name)
        if not -1 <= number <= most:
            return f"its knob {shortened(name)} is {number}, and not from -1 to {most:,}"
    return None


def _wrong_machine(machine: Mapping[str, Any]) -> str | None:
    for name in ("cores", "memory_bytes", "available_bytes"):
        number = machine.get(name, 1)
        if isinstance(number, bool) or not isinstance(number, int | float) or number < 0:
            return f"its machine's {name} is {shortened(number)}, and not a number"
    cores, (least, most) = machine.get("cores", 1), _CORES
    if not least <= cores <= most:
        return f"its machine's cores are {cores}, and not from {least} to {most:,}"
    if not isinstance(machine.get("host", ""), str):
        return f"its machine's host is a {type(machine['host']).__name__}"
    return None
