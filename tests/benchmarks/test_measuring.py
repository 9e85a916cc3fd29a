"""Rounds go on while noise hides whether autopipe made a pipeline slower, and no longer."""

from types import SimpleNamespace

import pytest

from benchmarks import measuring
from benchmarks.measuring import AGAIN, VARIANTS, measure

CASE = SimpleNamespace(
    letter="z", name="made_up", title="", unit="elements", left_as_written=False, make_data=lambda folder: None
)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Return a function that measures variants of so many units per second, by turns, at a made-up time."""

    def run(instances=1, **rates):
        now = SimpleNamespace(time=0.0)
        turns = dict.fromkeys((*VARIANTS, AGAIN), 0)

        def rate_of(variant, least_seconds=0.0):
            now.time += 1.0
            turns[variant] += 1
            each = rates.get(variant.replace("(", "_").rstrip(")"), [1.0])
            return each[turns[variant] % len(each)]

        monkeypatch.setattr(measuring, "make_variant", lambda case, variant, data, tuning_seconds: Named(variant))
        monkeypatch.setattr(measuring, "rate_of", rate_of)
        monkeypatch.setattr(measuring.time, "perf_counter", lambda: now.time)
        result = measure(
            CASE, tmp_path, rounds=5, rounds_seconds=100, instances=instances, least_seconds=0, tuning_seconds=0
        )
        return {variant: len(each.rates) for variant, each in result.variants.items()}, result

    return run


class Named(str):
    plan = SimpleNamespace(rules=())


def test_what_is_clearly_faster_or_slower_or_steadily_the_same_ends_after_the_rounds(run):
    counts, result = run(autopipe_naive=[2.0], autopipe_expert=[0.5])
    assert set(counts.values()) == {5}
    assert result.ratio("autopipe(naive)").median == 2.0
    assert result.ratio("autopipe(expert)").median == 0.5


def test_where_noise_hides_a_loss_the_reference_and_its_rivals_go_on_alone(run):
    counts, result = run(autopipe_naive=[0.5, 1.5, 0.6, 1.4], autopipe_expert=[1.0])
    assert counts["naive"] == counts["best"] == 5
    assert counts["autopipe(naive)"] == counts["autopipe(expert)"] == counts["expert"] == counts[AGAIN] > 25
    assert result.ratio("autopipe(naive)").lowest == 0.5


def test_it_ends_as_soon_as_the_noise_is_averaged_away(run):
    counts, _ = run(autopipe_naive=[0.9, 1.0, 1.1, 1.0, 1.0, 1.0, 1.0, 0.9])
    assert 5 <= counts["autopipe(naive)"] < 20


@pytest.mark.parametrize(("ours", "rounds"), [(1.1, 15), (0.9, 15), (2.0, 5), (0.5, 5)])
def test_what_is_close_to_the_reference_is_made_anew_with_it(run, ours, rounds):
    counts, result = run(instances=3, autopipe_naive=[ours], autopipe_expert=[2.0])
    assert counts["autopipe(naive)"] == counts["expert"] == counts[AGAIN] == rounds
    assert counts["naive"] == counts["best"] == 5
    assert result.ratio("autopipe(naive)").median == ours
