"""What may change: one rule, one file, the file named as the rule."""

from autopipe.rules._base import (
    Keeps,
    MeasurementError,
    Measurements,
    Phase,
    Proof,
    Rewrite,
    Rule,
    Site,
    catalogue,
    decides_caches,
    rule,
)

__all__ = [
    "Keeps",
    "MeasurementError",
    "Measurements",
    "Phase",
    "Proof",
    "Rewrite",
    "Rule",
    "Site",
    "catalogue",
    "decides_caches",
    "rule",
]
