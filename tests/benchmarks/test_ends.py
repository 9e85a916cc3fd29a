"""Iterators are ended in every way, in turn."""

from benchmarks import report
from benchmarks.ends import DROPPED, OURS_DROPPED, OURS_SWAPPED, SWAPPED, EndsResult, measure_ends


def test_every_way_to_end_an_iterator_is_timed_in_every_round():
    told = []
    result = measure_ends(0.05, rounds=3, on_turn=told.append)
    assert list(result.waits) == [DROPPED, OURS_DROPPED, SWAPPED, OURS_SWAPPED]
    assert [len(result.waits[name]) for name in (DROPPED, OURS_DROPPED)] == [3, 3]
    assert [len(result.waits[name]) for name in (SWAPPED, OURS_SWAPPED)] == [6, 6]
    assert all(min(waits) > 0 for waits in result.waits.values())
    assert len(told) == 12


def test_the_table_shows_the_longest_wait_and_how_many_are_long():
    result = EndsResult(3.0, {DROPPED: (0.001, 2.0, 0.002), OURS_DROPPED: (0.001, 0.001, 0.003)})
    text = report.markdown(report.Results(ends=[result]))
    assert f"| 3 | {DROPPED} | 0.002 | 2.000 | 1 of 3 |" in text
    assert f"| 3 | {OURS_DROPPED} | 0.001 | 0.003 | 0 of 3 |" in text
