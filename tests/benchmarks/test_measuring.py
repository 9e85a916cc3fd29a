"""What is close to the reference is made several times, and what is clearly faster or slower is not."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
import tensorflow as tf

import autopipe
from benchmarks import measuring
from benchmarks.measuring import AGAIN, _Instance, measure, reordered

CASE = SimpleNamespace(
    letter="z", name="made_up", title="", unit="elements", left_as_written=False, make_data=lambda folder: None
)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Return a function that measures variants of so many units per second."""

    def run(instances=1, **rates):
        def rate_of(variant, least_seconds=0.0):
            return rates.get(variant.replace("(", "_").rstrip(")"), 1.0)

        monkeypatch.setattr(measuring, "make_variant", lambda case, variant, data, tuning_seconds: Named(variant))
        monkeypatch.setattr(measuring, "rate_of", rate_of)
        result = measure(CASE, tmp_path, rounds=5, instances=instances, least_seconds=0, tuning_seconds=0)
        return {variant: len(each.rates) for variant, each in result.variants.items()}, result

    return run


class Named(str):
    plan = SimpleNamespace(rules=())


@pytest.mark.parametrize(("ours", "rounds"), [(1.1, 15), (0.9, 15), (2.0, 5), (0.5, 5)])
def test_what_is_close_to_the_reference_is_made_anew_with_it(run, ours, rounds):
    counts, result = run(instances=3, autopipe_naive=ours, autopipe_expert=2.0)
    assert counts["autopipe(naive)"] == counts["expert"] == counts["best"] == counts[AGAIN] == rounds
    assert counts["naive"] == 5
    assert result.ratio("autopipe(naive)").median == ours


def test_what_is_close_to_the_second_instance_of_the_reference_is_made_anew_too(run):
    counts, _ = run(instances=3, autopipe_naive=1.3, autopipe_expert=2.0, **{AGAIN: 1.3})
    assert counts["autopipe(naive)"] == 15


def test_what_is_made_anew_has_the_knobs_of_the_first():
    numbers = tf.data.Dataset.range(4).map(lambda x: x + 1)
    first, again, written = (
        _Instance(dataset, 0.0)
        for dataset in (autopipe.optimize(numbers, seconds=0), autopipe.optimize(numbers, seconds=0), numbers)
    )
    first.dataset.retune({"prefetch.buffer_size": 7})
    assert again.dataset.knobs != first.dataset.knobs
    assert again.like(first, 0.0).dataset.knobs == first.dataset.knobs
    assert written.like(written, 0.0).dataset is numbers


@pytest.mark.parametrize("seconds", [0.0, 3.0])
def test_what_is_made_anew_with_other_stages_is_tuned_itself(monkeypatch, seconds):
    tuned = {}
    monkeypatch.setattr(measuring, "tune", lambda dataset, seconds: tuned.update({seconds: dataset}))
    numbers = tf.data.Dataset.range(4)
    first, again = (_Instance(autopipe.optimize(written), 0.0) for written in (numbers.map(lambda x: x + 1), numbers))
    assert again.like(first, seconds) is again
    assert tuned == ({seconds: again.dataset} if seconds else {})


def test_each_comes_after_every_other_sooner_or_later():
    followed = {pair for number in range(12) for pair in pairwise(reordered("abcd", number))}
    assert len(followed) == 4 * 3
    assert all(sorted(reordered("abcd", number)) == list("abcd") for number in range(12))
