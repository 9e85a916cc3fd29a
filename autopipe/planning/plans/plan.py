"""The plan: what was done to a pipeline, with which numbers, to be stored with the code and applied again."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from reprlib import repr as shortened
from typing import Any
from uuid import uuid4

from autopipe.arguments import file_to_write
from autopipe.errors import PlanError
from autopipe.planning.plans.plan_fields import first_wrong

__all__ = ["MAKING_PLANS", "Carried", "Plan"]

MAKING_PLANS = "autopipe tune TARGET -o plan.json"
"""The command that makes a plan, for messages."""

_SCHEMA = 1
_MOST_BYTES = 2**20
_MOST_DIGITS = 19


@dataclass(frozen=True)
class Plan:
    """What ``optimize()`` and the tuner decided for one pipeline. All attributes but the last are fields of the JSON.

    Attributes:
        fingerprint: which pipeline the plan is for: 16 hexadecimal digits. It is the same in another process, in a
            moved checkout, for other files and arrays of the same type, another seed of a shuffle, and other numbers
            of parallel calls; it changes with a stage, an argument or what a function computes.
        keeps: the promise it was made under: ``"sequence"``, ``"elements"`` or ``"training"``.
        rules: the names of the rules applied, in order. They do not depend on the machine.
        places: for each of them the stage it changed, by its number in the pipeline as it was then, from the end. An
            older plan has no places: its rules are applied wherever they can be.
        knobs: the value of each knob; -1, and 0 for a thread pool, leave it to TensorFlow. They were found on
            ``machine``; on one with other cores, numbers per core are scaled.
        machine: the machine the numbers were found on: ``cores`` (may be a fraction), ``memory_bytes``,
            ``available_bytes`` and ``host``.
        measured: figures measured there, as the tuner gives them: ``objective`` (what was measured), ``before`` and
            ``after``, and as their spread ``lowest`` and ``highest``. ``ratio`` is what ``autopipe check --update``
            stores: how many times as fast as written the pipeline is (``median``, ``low``, ``high``, the
            ``comparisons`` they are from, and the ``cores`` and ``host`` they were made on). ``machine`` is present
            if the figures were measured on another machine than that of the plan.
        versions: the versions of ``autopipe``, ``keras``, ``python`` and ``tensorflow`` it was made with; older plans
            have none.
        schema: the version of this format: 1.
        carried: how a plan that was given to ``optimize()`` was applied; not stored.

    >>> plan = Plan(fingerprint="ab12", keeps="training", rules=("parallel_map",), knobs={"prefetch.buffer_size": 4})
    >>> Plan.from_json(plan.to_json()) == plan
    True
    """

    fingerprint: str
    keeps: str = "training"
    rules: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    knobs: Mapping[str, int] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    schema: int = _SCHEMA
    carried: Carried | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> str:
        """Return the plan as JSON text. A figure that is not finite becomes ``null``, since JSON has no other form."""
        content = {name: _plain(getattr(self, name)) for name in _STORED}
        return json.dumps(content, indent=2, sort_keys=True, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan; an existing plan is replaced atomically, and a link to one stays a link.

        Raises:
            ArgumentError: if ``path`` is not a file in a writable folder.
            OSError: if it cannot be written after all, as on a full disk.
        """
        target = file_to_write("path", path)
        if target.exists() and not target.is_file():
            # A device or a pipe, such as /dev/null, must not be replaced.
            target.write_text(self.to_json(), encoding="utf-8")
            return
        target = target.resolve()
        # Processes on other machines may write the same plan.
        draft = target.with_name(f".{target.name}.{uuid4().hex}")
        try:
            draft.write_text(self.to_json(), encoding="utf-8")
            if target.exists():
                draft.chmod(stat.S_IMODE(target.stat().st_mode))
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan.

        Raises:
            PlanError: if there is no such file, or it is not a plan.
        """
        try:
            text = _text_of(Path(os.path.expanduser(path)))
        except (OSError, TypeError, ValueError) as error:
            raise PlanError(
                f"A plan must be a readable text file, but {str(path)!r} is not ({error}). "
                f"Make one with: {MAKING_PLANS}"
            ) from error
        return cls.from_json(text, where=os.fspath(path))

    @classmethod
    def from_json(cls, text: str, where: str = "the text") -> Plan:
        """Read a plan from JSON text; nothing in it is executed.

        Raises:
            PlanError: if it is not JSON, of another schema, or a field has the wrong type.
        """
        if not isinstance(text, str):
            raise PlanError(_law(where, f"it is a {type(text).__name__}"))
        try:
            content = json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise PlanError(_law(where, f"it is not JSON ({error})")) from error
        if not isinstance(content, dict):
            raise PlanError(_law(where, f"it holds a {type(content).__name__}"))
        if content.get("schema") != _SCHEMA or isinstance(content["schema"], bool):
            received = shortened(content.get("schema"))
            raise PlanError(_law(where, f"its schema is {received}, and this release reads {_SCHEMA}"))
        wrong = first_wrong(content, _STORED)
        if wrong:
            raise PlanError(_law(where, wrong))
        return cls(**{**content, **{name: tuple(content.get(name, ())) for name in ("rules", "places")}})


_STORED = tuple(each.name for each in fields(Plan) if each.name != "carried")


@dataclass(frozen=True)
class Carried:
    """How a plan that was given to ``optimize()`` was applied here: what still holds, and what was scaled.

    Attributes:
        given: the plan.
        machine: the machine it was applied on.
        refused: its rules that were not applied here.
        scaled: its numbers that differ here, by knob: there and here.
        left_out: its knobs whose stages do not exist here, since its rules did not apply as they did there.
        versions: the versions that differ here, by name: there and here.
    """

    given: Plan
    machine: Mapping[str, Any]
    refused: tuple[str, ...] = ()
    scaled: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    versions: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def rules(self) -> tuple[str, ...]:
        """Its rules that hold here too."""
        return tuple(rule for rule in self.given.rules if rule not in self.refused)

    @property
    def measured_on(self) -> Mapping[str, Any]:
        """The machine that its figures are from."""
        return self.given.measured.get("machine") or self.given.machine

    @property
    def elsewhere(self) -> bool:
        """Whether its figures are from another machine, as far as the plan says."""
        there = self.measured_on
        return any(there[name] != self.machine.get(name) for name in ("host", "cores") if name in there)


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {str(name): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case float() if not math.isfinite(value):
            return None
    # NumPy's numbers, without an import of it.
    return _plain(value.tolist()) if type(value).__module__ == "numpy" and hasattr(value, "tolist") else value


def _text_of(file: Path) -> str:
    if not stat.S_ISREG(file.stat().st_mode):
        raise OSError("it is not a file")
    with file.open("rb") as opened:
        content = opened.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"it is larger than the {_MOST_BYTES:,} bytes a plan may have")
    return content.decode("utf-8")


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits is too large")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def _law(where: str, received: str) -> str:
    return (
        f"A plan must be the JSON object that Plan.save() writes, but in {where} {received}. "
        f"Make a new one with: {MAKING_PLANS}"
    )
