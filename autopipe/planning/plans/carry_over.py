"""A plan of another machine on this one: numbers per core are scaled."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autopipe.pipeline.knob_limits import PER_CORE
from autopipe.pipeline.knobs import Knob
from autopipe.planning.plans.plan import Carried, Plan

__all__ = ["carry_over"]

# Scaling does not go beyond this many threads or calls at once.
_MOST_SCALED = 1024


def carry_over(given: Plan, done: Plan, knobs: Sequence[Knob]) -> Plan:
    """Return the plan of what was done here by the rules of a plan, with its numbers adapted to this machine.

    Parallel calls and threads are numbers per core, and are scaled with the cores, to at most 1,024 unless they were
    more. Buffers stay, and so does what is left to TensorFlow. If the rules did not apply as they did there, a knob is
    left out if its stage does not exist here, or if the number of stages with its name differs.

    Args:
        given: the plan, perhaps of another machine.
        done: the rules applied here, this machine and its versions.
        knobs: the knobs of the pipeline here.

    >>> from autopipe.pipeline.knobs import Knob
    >>> given = Plan("ab12", knobs={"map[f].num_parallel_calls": 16}, machine={"cores": 8})
    >>> calls = Knob("map[f].num_parallel_calls", "num_parallel_calls", -1)
    >>> dict(carry_over(given, Plan("ab12", machine={"cores": 2}), [calls]).knobs)
    {'map[f].num_parallel_calls': 4}
    """
    known = {knob.name: knob for knob in knobs}
    refused = tuple(dict.fromkeys(rule for rule in given.rules if rule not in done.rules))
    again = given.rules == done.rules and given.places in ((), done.places)
    alike = _count_by_stage(given.knobs), _count_by_stage(known)
    left_out = () if again else tuple(name for name in given.knobs if name not in known or _differs(name, *alike))
    factor = _cores(done.machine, 1.0) / _cores(given.machine, _cores(done.machine, 1.0))
    here = {
        name: _scaled(value, known.get(name), factor) for name, value in given.knobs.items() if name not in left_out
    }
    carried = Carried(
        given=given,
        machine=done.machine,
        refused=refused,
        scaled={name: (given.knobs[name], value) for name, value in here.items() if value != given.knobs[name]},
        left_out=left_out,
        versions={
            name: (given.versions[name], version)
            for name, version in done.versions.items()
            if given.versions.get(name, version) != version
        },
    )
    measured = dict(given.measured)
    if measured and carried.elsewhere:
        measured["machine"] = dict(carried.measured_on)
    return replace(done, knobs=here, measured=measured, carried=carried)


def _differs(name: str, there: Counter[str], here: Counter[str]) -> bool:
    """Return whether the number of stages of one name differs: which of them it was is then unknown."""
    return there[_unnumbered(name)] != here[_unnumbered(name)]


def _count_by_stage(names: Iterable[str]) -> Counter[str]:
    return Counter(map(_unnumbered, names))


def _unnumbered(name: str) -> str:
    return re.sub(r"#\d+(?=\.[^.]*$)", "", name)


def _cores(machine: Mapping[str, Any], unknown: float) -> float:
    return float(machine.get("cores", unknown))


def _scaled(value: int, knob: Knob | None, factor: float) -> int:
    if knob is None or knob.field not in PER_CORE or value == knob.automatic or factor == 1:
        return value
    scaled = max(1, knob.least, round(value * factor))
    return min(scaled, max(value, _MOST_SCALED) if knob.most is None else knob.most)
