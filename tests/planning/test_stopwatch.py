"""A gain is told from noise by pairs of neighbouring windows."""

import time

import pytest

from autopipe.planning.stopwatch import Stopwatch, _is_undecided, around_median


@pytest.mark.parametrize(
    ("ratios", "undecided"),
    [
        ([1.2, 1.3], True),
        ([2.0, 2.1], False),
        ([1.2, 1.3, 1.2], False),
        ([2.0, 2.1, 1.9, 2.0, 0.5], False),
        ([0.9, 0.8, 0.9, 0.9, 3.0], False),
        ([1.6, 0.9, 1.6, 0.8, 1.6], True),
        ([1.6, 0.9] * 7 + [1.6], False),
        ([1.02, 0.9, 1.01, 1.1, 1.02], False),
        ([0.7, 0.5, 1.2], True),
        ([0.7, 0.5, 0.8], False),
    ],
    ids=[
        "few",
        "clear gain",
        "small gain",
        "gain",
        "loss",
        "hidden by noise",
        "enough",
        "too little",
        "loss or noise",
        "clear loss",
    ],
)
def test_pairs_are_measured_until_a_gain_is_told_from_noise(ratios, undecided):
    assert _is_undecided(ratios) is undecided


@pytest.mark.parametrize(
    ("ratios", "undecided"),
    [([0.9, 0.8, 0.9, 0.9, 3.0], False), ([0.9, 1.2, 0.9, 1.1, 0.8], True), ([0.9, 0.8, 0.9], True)],
)
def test_where_a_loss_counts_too_it_is_told_from_noise(ratios, undecided):
    assert _is_undecided(ratios, both_ways=True) is undecided


def test_one_window_in_five_that_is_ten_times_too_long_moves_no_bound():
    assert around_median([1.5, 1.6, 15.0, 1.4, 1.5]) == (1.5, 1.5, 1.6)
    assert around_median([2.0, 1.0]) == (1.5, 1.0, 2.0)


@pytest.mark.parametrize("ready", [0, 1, 5, 20])
def test_what_was_ready_before_its_turn_does_not_count(ready):
    """Some come at once after a rest, as from a buffer; each of the others takes 10 ms."""
    made = {"ready": 0}

    def batches():
        while True:
            if made["ready"]:
                made["ready"] -= 1
            else:
                time.sleep(0.01)
            yield None

    watch = Stopwatch(batches())
    number = watch.batches_in(0.05)
    for _ in range(3):
        made["ready"] = ready
        assert watch.seconds_per_batch(number) > 0.0095
