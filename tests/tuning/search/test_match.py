"""A challenger is compared with its neighbours; several matches say more than one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopipe.tuning.search.match import Match, compare, together
from autopipe.tuning.search.window import OBJECTIVES, Window

rates = st.floats(1, 1e4)
matches = st.lists(st.builds(Match, *[st.floats(-0.9, 9)] * 5), min_size=1, max_size=5)


def of_rate(rate):
    return Window(100, 100 / rate, 0.0)


def compared(*rates):
    return compare(*map(of_rate, rates), OBJECTIVES["rate"])


@given(rates, st.floats(-0.3, 0.3))
def test_a_machine_that_drifts_steadily_gains_nothing(rate, drift):
    match = compared(rate * (1 - drift), rate, rate * (1 + drift))
    assert match.gain == pytest.approx(0, abs=1e-9)
    assert match.noise == pytest.approx(2 * abs(drift))


@given(rates, rates)
def test_what_has_like_neighbours_gains_as_much_as_it_is_better(old, new):
    match = compared(old, new, old)
    assert match.gain == pytest.approx(new / old - 1, abs=1e-9)
    assert match.rate == pytest.approx(match.gain, abs=1e-9)
    assert match.noise == pytest.approx(0, abs=1e-9)


def test_waiting_and_steps_are_told_apart():
    before, challenge = Window(100, 1.0, 0.5), Window(80, 1.0, 0.1)
    match = compare(before, challenge, before, OBJECTIVES["busy"])
    assert (round(match.gain, 6), round(match.rate, 6)) == (0.8, -0.2)


def test_where_nothing_but_waiting_was_seen_there_is_a_gain_all_the_same():
    idle = Window(10, 1.0, 1.0)
    assert compare(idle, Window(10, 1.0, 0.5), idle, OBJECTIVES["busy"]).gain > 1


@given(matches)
def test_what_several_matches_say_lies_among_them_and_is_surer(several):
    one = together(several)
    assert min(each.gain for each in several) - 1e-9 <= one.gain <= max(each.gain for each in several) + 1e-9
    assert one.noise <= max(each.noise for each in several) + 1e-9 or max(each.noise for each in several) < 0
    assert one.seconds == pytest.approx(sum(each.seconds for each in several))


@given(rates)
def test_one_change_of_the_machine_never_passes_for_a_gain(factor):
    first = compared(1.0, factor, factor)
    for later in range(5):
        so_far = together([first, *[compared(factor, factor, factor)] * later])
        assert so_far.gain <= so_far.noise + 1e-9
