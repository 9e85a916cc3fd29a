"""A plan brings its pipeline back without timing anything, whatever was faster where it was made."""

import zlib

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pipelines import Recipe, made, recipes

from autopipe.errors import DatasetError
from autopipe.optimizer import rewrite
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.planning.measuring import count
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.planning.plans.fingerprint import fingerprint
from autopipe.planning.plans.plan import Plan
from autopipe.planning.plans.replay import replay
from autopipe.rules import Keeps, catalogue

TRIED = max(settings().max_examples // 4, 1)
MINUTES = 600.0


@pytest.fixture(autouse=True)
def _on_a_machine_that_is_never_late(monkeypatch):
    for name in ("_COUNTING_SECONDS", "_GROUPING_SECONDS"):
        monkeypatch.setattr(count, name, MINUTES)


class FasterHereAndThere(SampleMeasurements):
    """Calls some rewrites a gain and others not, by what becomes of the stages."""

    def __init__(self, luck):
        super().__init__(seconds=MINUTES)
        self._luck = luck

    def _is_faster(self, node):
        return zlib.crc32(f"{self._luck} {one_line(node)}".encode()) % 2

    def working(self, mapped):
        return 1.0, 0.0 if self._is_faster(mapped) else 1.0

    def caching(self, node, *, on_disk=False):
        return 1.0, 0.0 if self._is_faster(node) else 1.0

    def speed(self, before, after, over):
        return (2.0, 1.5, 2.5) if self._is_faster(after) else (0.5, 0.4, 0.6)


@settings(max_examples=TRIED)
@given(recipe=recipes(), keeps=st.sampled_from(Keeps), luck=st.integers(0, 99))
def test_a_plan_brings_back_the_pipeline_that_it_was_made_of(recipe: Recipe, keeps, luck):
    tree = extract(made(recipe))
    try:
        done = rewrite(tree, catalogue(), keeps=keeps, measurements=FasterHereAndThere(luck))
    except DatasetError:
        assume(False)
    rules, places = tuple(step.rule for step in done.steps), tuple(step.place for step in done.steps)
    plan = Plan.from_json(Plan(fingerprint(tree), str(keeps), rules, places).to_json())
    named = [rule for rule in catalogue() if rule.name in rules]
    again = replay(extract(recipe()), plan, named, keeps=keeps, measurements=SampleMeasurements(seconds=MINUTES))
    assert one_line(again.after) == one_line(done.after)
