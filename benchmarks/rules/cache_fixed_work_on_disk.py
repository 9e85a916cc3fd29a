from benchmarks.rules._base import RuleCase
from benchmarks.rules.cache_fixed_work import make

_BUDGET = 2**20

CASE = RuleCase(
    "cache_fixed_work_on_disk",
    "decodes, resizes and augments in one function, with little memory",
    "epoch",
    make,
    ram_budget=_BUDGET,
    disk=True,
)
