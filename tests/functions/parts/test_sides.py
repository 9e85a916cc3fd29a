"""The work on each side alone, and the rest of it, give together what the whole function gives."""

import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autopipe.functions.parts.cut import IllegalCutError
from autopipe.functions.parts.sides import sides_with_work, split_by_sides
from autopipe.pipeline.extract import extract

Dataset = tf.data.Dataset
SIDES = Dataset.zip((Dataset.from_tensors("1.5"), Dataset.from_tensors(("2", "x")), Dataset.from_tensors(3.0)))
WIDTHS = (1, 2, 1)
ELEMENT = ["1.5", "2", "x", 3.0]


def number(text):
    return tf.strings.to_number(text)


def split(function):
    return split_by_sides(extract(SIDES.map(function)).fn, WIDTHS)


def run(parts, rest):
    """Return what the parts and the rest make of the element."""
    given, between = list(map(tf.constant, ELEMENT)), []
    for part, width in zip(parts, WIDTHS, strict=True):
        taken, given = given[:width], given[width:]
        between += part.concrete(*taken) if part else taken
    return rest.concrete(*between)


FUNCTIONS = {
    "each side alone": lambda a, b, c: (number(a), number(b[0]), tf.sin(c)),
    "sides together": lambda a, b, c: number(a) + number(b[0]) * tf.sin(c),
    "one side works": lambda a, b, c: (number(a), b, c),
    "together before work": lambda a, b, c: number(tf.strings.join([a, b[0]])) + tf.sin(c),
    "a side is not used": lambda a, b, c: number(a),
    "what is worked out is used beside what it is made of": lambda a, b, c: (a, number(a), b[1], tf.exp(c), c),
    "named": lambda a, b, c: {"z": number(b[0]), "a": tf.sin(c) + number(a)},
    "checked": lambda a, b, c: (tf.debugging.check_numerics(number(a), "bad"), tf.sin(c)),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_parts_and_rest_give_what_the_function_gives(function):
    fn = extract(SIDES.map(function)).fn
    parts, rest = split_by_sides(fn, WIDTHS)
    expected = fn.concrete(*map(tf.constant, ELEMENT))
    for ours, theirs in zip(run(parts, rest), expected, strict=True):
        assert ours.numpy() == theirs.numpy()
    assert rest.output_spec == fn.output_spec


def test_each_part_takes_its_side_only():
    parts, _ = split(FUNCTIONS["each side alone"])
    assert [len(part.element_inputs) for part in parts] == [1, 2, 1]


def test_sides_without_work_are_taken_as_they_are():
    parts, rest = split(FUNCTIONS["one side works"])
    assert parts[1:] == (None, None)
    assert [spec.dtype for spec in rest.input_spec] == [tf.float32, tf.string, tf.string, tf.float32]


def test_what_is_drawn_runs_in_the_rest():
    parts, rest = split(lambda a, b, c: (number(a) + tf.random.uniform([]), b, c))
    assert len({float(run(parts, rest)[0]) for _ in range(5)}) == 5
    assert {op.type for op in parts[0].concrete.graph.get_operations()}.isdisjoint({"RandomUniform"})


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, c: (a, b, c + 1.0),
        lambda a, b, c: number(tf.strings.join([a, b[0]])),
        lambda a, b, c: (number(tf.strings.as_string(tf.random.uniform([]))), a),
    ],
)
def test_where_no_side_has_work_of_its_own_there_is_nothing_to_split(function):
    assert split(function) is None


def test_a_check_of_one_side_stays_with_it():
    def checked(a, b, c):
        tf.debugging.assert_equal(b[1], "x")
        return number(a), number(b[0])

    parts, rest = split(checked)
    run(parts, rest)
    with pytest.raises(tf.errors.InvalidArgumentError):
        parts[1].concrete(tf.constant("2"), tf.constant("y"))


def test_a_check_of_a_side_without_work_runs_with_the_rest():
    def checked(a, b, c):
        tf.debugging.assert_equal(b[1], "x")
        tf.debugging.assert_equal(a, "1.5")
        return number(a), b

    parts, rest = split(checked)
    assert float(run(parts, rest)[0]) == 1.5
    parts[0].concrete(tf.constant("1.5"))
    with pytest.raises(tf.errors.InvalidArgumentError):
        parts[0].concrete(tf.constant("2"))
    with pytest.raises(tf.errors.InvalidArgumentError):
        rest.concrete(tf.constant(1.5), tf.constant("2"), tf.constant("y"), tf.constant(3.0))


def test_so_does_one_of_that_side_and_another():
    def checked(a, b, c):
        tf.debugging.assert_equal(a, b[0])
        return number(a), b

    _, rest = split(checked)
    assert "Assert" in {op.type for op in rest.concrete.graph.get_operations()}


def test_work_on_a_side_that_is_not_to_be_kept_is_left_to_the_rest():
    def function(a, b, c):
        tf.debugging.assert_less(c, 4.0)
        return number(a), number(b[0]), tf.sin(c)

    fn = extract(SIDES.map(function)).fn
    assert sides_with_work(fn, WIDTHS) == (True, True, True)
    parts, rest = split_by_sides(fn, WIDTHS, (True, False, False))
    assert [part is None for part in parts] == [False, True, True]
    assert [each.numpy() for each in run(parts, rest)] == [1.5, 2.0, tf.sin(3.0).numpy()]
    with pytest.raises(tf.errors.InvalidArgumentError):
        rest.concrete(tf.constant(1.5), tf.constant("2"), tf.constant("x"), tf.constant(5.0))
    assert split_by_sides(fn, WIDTHS, (False, False, False)) is None


def of_two_sides(a, b, c):
    tf.debugging.assert_equal(a, b[0])
    return number(a), number(b[0])


def after_what_leaves_traces(a, b, c):
    tf.print(b[1])
    tf.debugging.assert_equal(a, "1.5")
    return number(a), b


@pytest.mark.parametrize(
    ("function", "reason"),
    [(of_two_sides, "Assert .* is not part of the work on any one side"), (after_what_leaves_traces, "PrintV2")],
)
def test_what_can_run_on_no_side_alone_nor_with_the_rest_is_not_split_off(function, reason):
    with pytest.raises(IllegalCutError, match=reason):
        split(function)


def checked(x):
    tf.debugging.assert_greater(x, -1e9)
    return x


STEPS = {
    "checked": checked,
    "number": lambda x: tf.strings.to_number(tf.strings.as_string(x)),
    "sin": tf.sin,
    "double": lambda x: x * 2,
    "exp": lambda x: tf.exp(-x),
}
JOINS = {
    "add": lambda x, y: x + y,
    "max": tf.maximum,
    "first": lambda x, y: x,
    "stack": lambda x, y: tf.stack([x, y])[0],
}


@settings(max_examples=3 * settings().max_examples)
@given(
    steps=st.tuples(*[st.lists(st.sampled_from(sorted(STEPS)), max_size=3)] * 2),
    joins=st.lists(st.sampled_from(sorted(JOINS)), min_size=1, max_size=3),
    after=st.lists(st.sampled_from(sorted(STEPS)), max_size=2),
    kept=st.sampled_from([(True, True), (True, False), (False, True)]),
)
def test_random_functions_of_two_sides_give_what_they_gave(steps, joins, after, kept):
    def function(x, y):
        for step in steps[0]:
            x = STEPS[step](x)
        for step in steps[1]:
            y = STEPS[step](y)
        results = [JOINS[join](x, y) for join in joins]
        for step in after:
            results[0] = STEPS[step](results[0])
        return (x, *results)

    numbers = Dataset.from_tensors(0.5)
    fn = extract(Dataset.zip((numbers, numbers)).map(function)).fn
    found = split_by_sides(fn, (1, 1), kept)
    assume(found is not None)
    parts, rest = found
    assert all(keeps or part is None for part, keeps in zip(parts, kept, strict=True))
    sides = tf.constant(0.3), tf.constant(0.7)
    between = [
        each for part, side in zip(parts, sides, strict=True) for each in (part.concrete(side) if part else [side])
    ]
    for ours, theirs in zip(rest.concrete(*between), fn.concrete(*sides), strict=True):
        assert ours.numpy() == pytest.approx(theirs.numpy(), rel=1e-6)
