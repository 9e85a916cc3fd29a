"""A new search begins only where training waits for good."""

from hypothesis import given
from hypothesis import strategies as st

from autopipe.tuning.live.watch import Watch
from autopipe.tuning.search.window import Window


def window(busy):
    return Window(100, 1.0, 1.0 - busy)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30))
def test_only_five_windows_in_a_row_that_are_all_far_below_count(shares):
    watch = Watch("busy", window(0.9))
    for number, share in enumerate(shares, 1):
        latest = [window(each).busy for each in shares[max(0, number - 5) : number]]
        assert watch.fell(window(share)) is (len(latest) == 5 and max(latest) < 0.9 * window(0.9).busy)


def test_without_a_reference_the_first_window_is_it():
    watch = Watch("busy")
    assert not watch.fell(window(0.8))
    assert [watch.fell(window(0.4)) for _ in range(5)][-1] is True
