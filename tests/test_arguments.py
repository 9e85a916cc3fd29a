"""Arguments are taken as they are where they obey their law, and named where they do not."""

import math

import numpy as np
import pytest

from autopipe.arguments import bytes_or_none, file_to_write, function, number, one_of, whole_number, yes_or_no
from autopipe.errors import ArgumentError


@pytest.mark.parametrize("value", [4, np.int64(4)])
def test_whole_numbers_of_numpy_are_whole_numbers(value):
    assert whole_number("trials", value) == bytes_or_none("ram_budget", value) == 4


def test_no_budget_is_none():
    assert bytes_or_none("ram_budget", None) is None


@pytest.mark.parametrize("value", [True, np.True_, "4", 4.0, -1, None, [4]])
def test_others_are_none(value):
    with pytest.raises(ArgumentError, match="trials must be a whole number >= 0, but got "):
        whole_number("trials", value)


@pytest.mark.parametrize("value", [0, 1.5, math.inf, np.float32(0.5)])
def test_numbers_are_numbers(value):
    assert number("seconds", value) == value


@pytest.mark.parametrize("value", [True, np.True_, np.False_, "1", None, math.nan, -0.1, [1], 10**400])
def test_what_is_no_number_is_named(value):
    with pytest.raises(ArgumentError, match="seconds must be a number >= 0, but got "):
        number("seconds", value)


def test_more_bytes_than_can_be_counted_are_named_by_their_size():
    with pytest.raises(ArgumentError, match=r"ram_budget must be .* <= 2\*\*63 - 1, but got one of 1329 bits"):
        bytes_or_none("ram_budget", 10**400)


@pytest.mark.parametrize("value", ["best", None, [], np.array([1, 2])])
def test_what_is_none_of_the_names_is_named_with_them(value):
    with pytest.raises(ArgumentError, match="sampler must be one of tpe, random, but got "):
        one_of("sampler", value, ("tpe", "random"))


@pytest.mark.parametrize("value", [None, "yes", 1, np.array([1, 2])])
def test_what_is_neither_yes_nor_no_is_named(value):
    with pytest.raises(ArgumentError, match="verify must be True or False, but got "):
        yes_or_no("verify", value)


def test_what_cannot_be_called_is_no_function():
    assert function("on_trial", None, "a trial") is None
    with pytest.raises(ArgumentError, match="on_trial must be a function of a trial, but got 3"):
        function("on_trial", 3, "a trial")


def test_limits_are_in_the_message():
    with pytest.raises(ArgumentError, match="window must be a finite number > 1, but got 1"):
        number("window", 1, 1, above=True, finite=True)
    with pytest.raises(ArgumentError, match="but got inf"):
        number("window", math.inf, finite=True)


def test_a_file_may_be_written_in_a_folder_that_is_there(tmp_path):
    assert file_to_write("plan", str(tmp_path / "plan.json")) == tmp_path / "plan.json"
    for wrong in (tmp_path, tmp_path / "nowhere" / "plan.json", "x" * 5000 + "/x", "", 5, "a\0b", b"plan.json"):
        with pytest.raises(ArgumentError, match="plan must be a file in a folder that can be written to"):
            file_to_write("plan", wrong)
