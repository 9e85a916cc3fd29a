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
from autopipe.rules._obligations import FitsDisk, NotCachedYet, OutgrowsMemory

__all__ = [
    "FitsDisk",
    "Keeps",
    "MeasurementError",
    "Measurements",
    "NotCachedYet",
    "OutgrowsMemory",
    "Phase",
    "Proof",
    "Rewrite",
    "Rule",
    "Site",
    "catalogue",
    "decides_caches",
    "rule",
]
