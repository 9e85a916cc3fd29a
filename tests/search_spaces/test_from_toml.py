"""A space in a TOML file: what it may hold, and one line that names each mistake."""

import pytest

from autopipe.errors import ArgumentError
from autopipe.pipeline.knobs import Knob
from autopipe.planning.memory.machine import Machine
from autopipe.search_spaces import ask, from_toml
from autopipe.search_spaces import from_toml as read

KNOBS = (
    Knob("map[load].num_parallel_calls", "num_parallel_calls", -1),
    Knob("map[load]#2.num_parallel_calls", "num_parallel_calls", 2),
    Knob("interleave[read].num_parallel_calls", "num_parallel_calls", 2, most=4),
    Knob("prefetch.buffer_size", "buffer_size", 3),
)


@pytest.fixture
def space(tmp_path):
    def made(text):
        file = tmp_path / "space.toml"
        file.write_text(text)
        found = ask(read(file), KNOBS, Machine.here())
        return {name: distribution.choices for name, distribution in found.items()}

    return made


def test_values_are_tried_as_they_are_written(space):
    assert space('[[knob]]\nmatch = "map*.num_parallel_calls"\nvalues = [8, -1, 1]') == {
        "map[load].num_parallel_calls": (-1, 1, 8),
        "map[load]#2.num_parallel_calls": (-1, 1, 8),
    }


def test_a_range_is_spread_evenly_or_doubled(space):
    range_of = '[[knob]]\nmatch = "prefetch.buffer_size"\nlow = {}\nhigh = {}\nlog = {}'
    (few,) = space(range_of.format(2, 5, "false")).values()
    (many,) = space(range_of.format(1, 1000, "false")).values()
    (doubled,) = space(range_of.format(3, 50, "true")).values()
    assert few == (2, 3, 4, 5)
    assert (many[0], many[-1], len(many)) == (1, 1000, 16)
    assert doubled == (3, 6, 12, 24, 48, 50)


def test_what_a_knob_cannot_be_is_left_out(space):
    found = space('[[knob]]\nmatch = "*.num_parallel_calls"\nvalues = [2, 16]')
    assert found["map[load].num_parallel_calls"] == (2, 16)
    assert "interleave[read].num_parallel_calls" not in found


def test_of_two_patterns_the_first_holds(space):
    own = '[[knob]]\nmatch = "map[load].num_parallel_calls"\nvalues = [5]\n'
    found = space(own + '[[knob]]\nmatch = "map*"\nvalues = [7]')
    assert found == {"map[load].num_parallel_calls": (5,), "map[load]#2.num_parallel_calls": (7,)}


VALID = '[[knob]]\nmatch = "prefetch*"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be a TOML file of .*holds no .*Write in each: match"),
        ("knob = 3", "holds no"),
        ("[knob]\nmatch = 3", "holds no"),
        ("[[knobs]]\nvalues = [1]", "holds the unknown key 'knobs'"),
        ("[[knob]", "cannot be read"),
        ("knob = " + "[" * 2_000, "cannot be read"),
        ("[[knob]]\nvalues = [1]", "knob 1 of .*space.toml has no match. Write: match"),
        ("[[knob]]\nmatch = 3\nvalues = [1]", "has match = 3"),
        (VALID, "has neither values nor low"),
        (VALID + "low = 1", "has neither values nor high"),
        (VALID + "value = [1]", "has the unknown key 'value'"),
        (VALID + "values = [1]\nhigh = 4", "has both values and high"),
        (VALID + "values = []", "values must be a list of whole numbers, but knob 1 of .* has values = ... Write"),
        (VALID + "values = [1.5]", "has values = .1.5."),
        (VALID + "values = [true]", "has values = .True."),
        (VALID + "values = 4", "has values = 4"),
        (VALID + "low = 9\nhigh = 4", "must be whole numbers, low <= high, .* has low = 9 and high = 4"),
        (VALID + "low = 1\nhigh = '4'", "has low = 1 and high = '4'"),
        (VALID + "low = 0\nhigh = 4\nlog = true", "with it low >= 1, .* has log = True and low = 0"),
        (VALID + "low = 1\nhigh = 4\nlog = 2", "has log = 2"),
        (VALID + "values = [0]", "for prefetch.buffer_size must be within its limits, >= 1, but .* has .0.. Give it"),
        ('[[knob]]\nmatch = "mapp*"\nvalues = [1]', "must name a knob .*'mapp.*names none. Its knobs: map.load..num"),
    ],
)
def test_a_mistake_is_named_in_one_line(space, text, words):
    with pytest.raises(ArgumentError, match=words) as caught:
        space(text)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ArgumentError, match="nowhere.toml cannot be read .*No such file"):
        from_toml(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("path", [None, b"space.toml", 3])
def test_what_is_no_path_is_named(path):
    with pytest.raises(ArgumentError, match="A search space must be the path of a TOML file, but got "):
        from_toml(path)


def test_a_path_with_a_null_byte_is_named():
    with pytest.raises(ArgumentError, match="cannot be read .*null byte"):
        from_toml("a\0b.toml")


def test_a_knob_that_another_structure_has_may_be_named(tmp_path):
    file = tmp_path / "space.toml"
    file.write_text('[[knob]]\nmatch = "batch*.num_parallel_calls"\nvalues = [2]')
    batch = Knob("batch.num_parallel_calls", "num_parallel_calls", -1)
    assert ask(from_toml(file), KNOBS, Machine.here(), others=[batch]) == {}
    assert list(ask(from_toml(file), [batch], Machine.here(), others=KNOBS)) == [batch.name]
