"""Neighbours differ in one knob, stay in the space, and lead everywhere in it."""

from hypothesis import assume, given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, IntDistribution

from autopipe.tuning.search.distributions import fits
from autopipe.tuning.search.neighbours import neighbours

values = st.one_of(
    st.sets(st.integers(-1, 64), min_size=1, max_size=6),
    st.sampled_from([{0, 1}, {-1, 1, 2, 4, 8}, {0, 2, 4, 8}]),
)
spaces = st.dictionaries(st.sampled_from("abcd"), values, min_size=1).map(
    lambda wanted: {name: CategoricalDistribution(sorted(each)) for name, each in wanted.items()}
)


@st.composite
def spaces_and_settings(draw):
    space = draw(spaces)
    return space, {name: draw(st.sampled_from(each.choices)) for name, each in space.items()}


@given(spaces_and_settings())
def test_each_differs_in_one_knob_and_is_in_the_space(drawn):
    space, knobs = drawn
    for each in neighbours(knobs, space):
        assert sum(each[name] != knobs[name] for name in knobs) == 1
        assert all(fits(each[name], space[name]) for name in space)


@given(spaces_and_settings())
def test_none_comes_twice(drawn):
    space, knobs = drawn
    found = [tuple(each.items()) for each in neighbours(knobs, space)]
    assert len(found) == len(set(found))


@given(values, st.data())
def test_steps_lead_from_every_value_to_every_other(choices, data):
    assume(choices != {-1, 0})  # no knob has two ways to leave a number to TensorFlow, and no number
    space = {"knob": CategoricalDistribution(sorted(choices))}
    reached, fresh = set(), {data.draw(st.sampled_from(sorted(choices)))}
    while fresh:
        reached |= fresh
        fresh = {each["knob"] for value in fresh for each in neighbours({"knob": value}, space)} - reached
    assert reached == choices


def test_a_step_of_each_knob_comes_before_a_second_of_any():
    space = {name: CategoricalDistribution((1, 2, 4)) for name in "abc"}
    changed = [next(name for name in "abc" if each[name] != 2) for each in neighbours(dict.fromkeys("abc", 2), space)]
    assert changed == list("abcabc")


def test_a_value_that_is_not_in_the_space_has_neighbours_in_it():
    assert list(neighbours({"calls": 3}, {"calls": CategoricalDistribution((1, 2, 8, 16))})) == [
        {"calls": 8},
        {"calls": 2},
    ]


def test_a_range_has_no_next_value():
    assert list(neighbours({"calls": 3}, {"calls": IntDistribution(1, 8)})) == []
