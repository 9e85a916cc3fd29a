"""What searches came to is told from the first window of the first to the last window of the last."""

from optuna.distributions import CategoricalDistribution

from autopipe.tuning.live.outcome import in_one_line, measured, trials_of
from autopipe.tuning.search.search import Search
from autopipe.tuning.search.window import Window


def searched(*rates, calls=1):
    space = {"calls": CategoricalDistribution((1, 2))}
    search = Search({"calls": calls}, space, trials=1, objective="rate", seed=0)
    for rate in rates:
        search.feed(Window(rate, 1.0, 0.5))
    search.stop()
    return search


def test_trials_of_all_searches_count_and_knobs_are_told_that_differ_from_the_first():
    searches = [searched(100, 200, 200, 100, 200), searched(210, 90, 190, calls=2)]
    assert [trial.kept for trial in trials_of(searches)] == [True, False]
    assert "rate 100 -> 190 after 2 trials (1 kept" in in_one_line(searches, 0.02)
    assert in_one_line(searches, 0.02).endswith(": calls=2")
    assert measured(searches) == {
        "objective": "rate",
        "before": 100,
        "after": 190,
        "steps_per_second_before": 100,
        "steps_per_second_after": 190,
        "trials": 2,
    }


def test_a_retreat_is_told_with_the_figures_of_the_knobs_it_leads_to():
    searches = [searched(100, 200, 200, 100, 200), searched(210, 90, 190, calls=2)]
    searches[-1].retreat(searches[0].original, searches[0].first, "memory ran short")
    assert measured(searches)["after"] == measured(searches)["before"] == 100
    assert "rate 100 -> 100 after 2 trials (1 kept, " in in_one_line(searches, 0.02)
    told = in_one_line(searches, 0.02)
    assert told.endswith(": the knobs it had, because with those that were kept memory ran short")


def test_trials_that_were_given_up_are_told_with_the_reason_and_do_not_show_what_is_best():
    space = {"calls": CategoricalDistribution((1, 2))}
    search = Search({"calls": 1}, space, trials=1, objective="rate", seed=0)
    search.feed(Window(100, 1.0, 0.5))
    search.give_up("memory ran short")
    assert "after 1 trial (0 kept, 1 given up because memory ran short, " in in_one_line([search], 0.02)
    assert in_one_line([search], 0.02).endswith(": the knobs it had, because no trial came to its end")


def test_a_search_that_saw_no_window_is_left_out():
    assert measured([searched(100, 50, 100), searched()])["trials"] == 1
    assert measured([searched()]) == {}
    assert "too short to measure anything" in in_one_line([searched()], 0.02)


def test_a_search_with_nothing_to_tune_says_so():
    search = Search({}, {}, trials=3)
    assert search.finished
    assert "nothing to tune" in in_one_line([search], 0.02)


def test_that_no_trial_was_asked_for_or_measured_is_told():
    space = {"calls": CategoricalDistribution((1, 2))}
    assert "trials=0" in in_one_line([Search({"calls": 1}, space, trials=0)], 0.02)
    assert "no trial came to its end" in in_one_line([searched(100)], 0.02)
    assert "after 1 trial" in in_one_line([searched(100, 50, 100)], 0.02)


def test_where_the_driver_was_lost_in_between_both_figures_are_of_what_both_windows_have():
    space = {"calls": CategoricalDistribution((1, 2))}
    search = Search({"calls": 1}, space, trials=1, objective="gpu", seed=0)
    for gpu in (0.4, 0.4, None):
        search.feed(Window(100, 1.0, 0.25, gpu))
    search.stop()
    figures = measured([search])
    assert (figures["objective"], figures["before"], figures["after"]) == ("busy", 0.75, 0.75)
