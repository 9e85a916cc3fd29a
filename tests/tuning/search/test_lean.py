"""Numbers only ever become smaller, one at a time."""

from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution

from autopipe.tuning.search.lean import leaner

CHOICES = {"calls": (-1, 1, 2, 4, 8), "buffer": (-1, 1, 2, 3), "size": (0, 2, 4)}
SPACE = {name: CategoricalDistribution(choices) for name, choices in CHOICES.items()}


@given(st.fixed_dictionaries({name: st.sampled_from(choices) for name, choices in CHOICES.items()}))
def test_each_proposal_makes_one_number_smaller_and_leaves_the_others(knobs):
    for name, proposed in leaner(knobs, SPACE, settled=set()):
        changed = {key for key in knobs if proposed[key] != knobs[key]}
        assert changed == {name}
        assert proposed[name] in CHOICES[name]
        assert knobs[name] in (-1, 0) or 0 < proposed[name] < knobs[name]


def test_what_tensorflow_chooses_is_followed_by_no_more_calls_and_threads_than_there_are_processors(monkeypatch):
    monkeypatch.setattr("autopipe.tuning.search.lean.processors", lambda: 4)
    assert [proposed[name] for name, proposed in leaner({"calls": -1, "buffer": 1, "size": 0}, SPACE, set())] == [4, 4]


def test_a_knob_that_is_settled_or_smallest_is_left_alone():
    assert not list(leaner({"calls": 1, "buffer": 1, "size": 2}, SPACE, settled=set()))
    assert [name for name, _ in leaner({"calls": 8, "buffer": 3, "size": 4}, SPACE, {"calls"})] == ["buffer", "size"]
