import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import autopipe
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.text import one_line
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import AlwaysFaster, Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "cache_zipped_results"
Dataset = tf.data.Dataset
TEXTS = Dataset.from_tensor_slices([f"{number}" for number in range(12)])
NUMBERS = Dataset.range(12)


def number(text):
    return tf.strings.to_number(text)


def both(a, b):
    return number(a), number(b)


def product(a, b):
    return number(a) * number(b) + tf.random.uniform([])


def difference(a, b):
    return number(a) - number(b)


def seeded(text, number_of_it):
    seed = tf.cast(tf.stack([number_of_it, 7]), tf.int32)
    return number(text) + tf.random.stateless_uniform([], seed)


def seeded_by_place(place, text):
    return seeded(text, place)


def mixed():
    """Return a dataset of its own: another one would go on with the orders of its seed."""
    return TEXTS.shuffle(12, seed=3)


def optimized(dataset, monkeypatch):
    """Return it with this rule alone, as if its elements took a millisecond to make."""
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1e-3, 1e-6))
    made = autopipe.optimize(dataset, rules=[RULE])
    assert made.plan.rules == (RULE,)
    return made


def pairs():
    """Return a dataset of its own: another one would go on with the orders of its seed."""
    return Dataset.zip((TEXTS, TEXTS.shuffle(12, seed=3)))


NUMBERED = "tensor_slices | enumerate() | shuffle(12, seed=3)"
KEPT = "zip()[tensor_slices | enumerate(), tensor_slices | enumerate() | shuffle(12, seed=3)]"
MEMOIZED = "memoized_map(part of both, calls=AUTOTUNE)"


def test_what_is_done_with_one_side_alone_is_kept():
    done = assert_rewrites(RULE, pairs().map(both), f"{KEPT} | {MEMOIZED} | {MEMOIZED} | map(rest of both)")
    assert done.steps[0].keeps is Keeps.SEQUENCE


def test_what_moves_pairs_stays_where_it_was():
    dataset = pairs().shuffle(5, seed=1).repeat(2).take(20).map(both, num_parallel_calls=2)
    moved = f"{KEPT} | shuffle(5, seed=1) | repeat(2) | take(20)"
    memoized = MEMOIZED.replace("AUTOTUNE", "2")
    assert_rewrites(RULE, dataset, f"{moved} | {memoized} | {memoized} | map(rest of both, calls=2)", Keeps.SEQUENCE)


def test_what_draws_runs_in_every_epoch():
    done = apply(RULE, pairs().map(product))
    memoized = "memoized_map(part of product, calls=AUTOTUNE)"
    assert one_line(done.after) == f"{KEPT} | {memoized} | {memoized} | map(rest of product)"
    first, second = (list(build(done.after).as_numpy_iterator()) for _epoch in range(2))
    assert first != second


def test_a_side_without_work_is_not_numbered():
    dataset = Dataset.zip((TEXTS, NUMBERS.shuffle(12, seed=3))).map(lambda text, x: (x, number(text)))
    sides = "zip()[tensor_slices | enumerate(), range(0, 12) | shuffle(12, seed=3)]"
    done = apply(RULE, dataset)
    assert one_line(done.after) == f"{sides} | memoized_map(part of <lambda>, calls=AUTOTUNE) | map(rest of <lambda>)"
    assert compare(dataset, build(done.after), Keeps.SEQUENCE, epochs=3) is None


def test_sides_may_be_named_nested_and_of_several_tensors():
    several = Dataset.zip((TEXTS, NUMBERS))
    sides = Dataset.zip({"b": several.shuffle(12, seed=2), "a": {"c": TEXTS.skip(2).repeat()}})

    def joined(element):
        text, x = element["b"]
        return {"sum": number(text) + number(element["a"]["c"]), "x": x, "text": text}

    done = apply(RULE, sides.map(joined))
    assert [step.rule for step in done.steps] == [RULE]
    assert compare(sides.map(joined), build(done.after), Keeps.SEQUENCE, epochs=3) is None


def test_ignored_errors_leave_out_the_same_pairs_in_every_epoch():
    def fallible(x, y):
        return tf.strings.to_hash_bucket_fast(tf.strings.as_string(x), 9) // (x % 3), tf.strings.as_string(y)

    dataset = Dataset.zip((NUMBERS, NUMBERS.shuffle(12, seed=3))).map(fallible).batch(2).ignore_errors()
    done = apply(RULE, dataset)
    assert [step.rule for step in done.steps] == [RULE]
    assert compare(dataset, build(done.after), Keeps.SEQUENCE, epochs=3) is None


def test_where_a_cache_could_serve_or_cache_results_does_nothing_is_said():
    for dataset in (
        Dataset.zip((TEXTS, TEXTS)).map(both),
        Dataset.zip((TEXTS, TEXTS)).shuffle(12).map(both),
        TEXTS.shuffle(12).take(5).map(number),
        pairs().map(lambda a, b: (a, b)),
        pairs().map(lambda a, b: number(tf.strings.join([a, b]))),
    ):
        assert_no_match(RULE, dataset)


def test_a_cache_serves_pairs_whose_first_element_would_not_wait_long_for_a_shuffle():
    written = Dataset.zip((TEXTS, TEXTS)).shuffle(12, seed=3).map(both)
    done = apply(RULE, written, answers=SampleMeasurements(10**9, 2.0))
    assert not done.steps
    long = apply(RULE, written, answers=Answers(caching=(1.0, 1e-5)))
    assert any("a first element may wait no longer than 5 s" in each for each in long.steps[0].reasons)


def test_a_side_that_differs_from_epoch_to_epoch_is_refused():
    dataset = Dataset.zip((TEXTS, TEXTS.shuffle(12).batch(1).unbatch())).map(both)
    assert_refuses(RULE, dataset, "shuffle(12) gives each repetition its own order")


def test_ragged_sides_are_refused():
    ragged = Dataset.from_tensor_slices(tf.ragged.constant([["1"], ["2", "3"]]))
    dataset = Dataset.zip((ragged, TEXTS.shuffle(12))).map(lambda row, text: (row, number(text)))
    assert_refuses(RULE, dataset, "elements hold a RaggedTensor, not a plain tensor")


def test_refuses_results_of_which_tensorflow_could_not_choose_one():
    def packed(a, b):
        return [tf.quantization.quantize(number(text), 0.0, 50.0, tf.quint16).output for text in (a, b)]

    assert_refuses(RULE, pairs().map(packed), "elements hold a quint16, for which TensorFlow has no conditional")


def test_what_all_sides_keep_together_must_fit():
    assert_refuses(RULE, pairs().map(both), "above the RAM budget", answers=Answers(cache_bytes=600, ram_budget=1100))
    done = apply(RULE, pairs().map(both), answers=Answers(cache_bytes=600, ram_budget=1200))
    assert done.new_cache_bytes == 1200


def test_each_side_is_worked_out_once_for_each_of_its_elements(monkeypatch):
    dataset = optimized(Dataset.zip((TEXTS.take(5).repeat(), TEXTS.shuffle(12))).map(difference), monkeypatch)
    tables = [node.table for node in trees.walk(dataset.tree) if isinstance(node, ir.MemoizedMap)]
    for _epoch in range(2):
        assert len(list(dataset)) == 12
    assert sorted(int(tf.raw_ops.LookupTableSizeV2(table_handle=table)) for table in tables) == [5, 12]


def test_an_iterator_that_is_retuned_goes_on(monkeypatch):
    plain, dataset = pairs().map(difference), optimized(pairs().map(difference), monkeypatch)
    for calls in (1, 3):
        expected, iterator = [float(x) for x in plain], iter(dataset)
        seen = [float(next(iterator)) for _ in range(4)]
        dataset.retune({name: calls for name in dataset.knobs if name.startswith("memoized_map")})
        assert seen + [float(x) for x in iterator] == expected


MOVES = {
    "seeded": lambda dataset: dataset.shuffle(5, seed=4),
    "take": lambda dataset: dataset.take(9),
    "skip": lambda dataset: dataset.skip(2),
    "repeat": lambda dataset: dataset.repeat(2),
    "shard": lambda dataset: dataset.shard(2, 1),
}
moves = st.lists(st.sampled_from(sorted(MOVES)), max_size=2)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("function", [both, lambda a, b: number(a) + tf.cast(tf.strings.length(b), tf.float32)])
@given(sides=st.tuples(moves, moves), after=moves)
def test_whatever_moves_sides_and_pairs_they_are_the_same(function, sides, after):
    def moved(dataset, names):
        for name in names:
            dataset = MOVES[name](dataset)
        return dataset

    dataset = moved(Dataset.zip(tuple(moved(TEXTS, names) for names in sides)), after).map(function).ignore_errors()
    done = apply(RULE, dataset, Keeps.SEQUENCE, AlwaysFaster())
    assert compare(dataset, build(done.after), Keeps.SEQUENCE, epochs=3) is None


COUNTED = {
    "a counter": (Dataset.counter, "tensors | repeat() | scan(<lambda>)"),
    "a range": (lambda: NUMBERS, "range(0, 12)"),
    "a counter that ends": (lambda: Dataset.counter().take(12), "tensors | repeat() | scan(<lambda>) | take(12)"),
    "one number": (lambda: Dataset.from_tensors(5).repeat(), "tensors | repeat()"),
    "drawn numbers": (lambda: Dataset.random(seed=4).map(lambda x: x), "random_numbers | map(<lambda>)"),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("numbers", "text"), COUNTED.values(), ids=COUNTED)
def test_seeds_are_made_of_numbers_again_where_another_side_holds_data(numbers, text):
    after = "memoized_map(part of seeded, calls=AUTOTUNE) | map(rest of seeded)"
    dataset = Dataset.zip((mixed(), numbers())).map(seeded)
    assert_rewrites(RULE, dataset, f"zip()[{NUMBERED}, {text}] | {after}", Keeps.SEQUENCE)


def test_so_they_are_of_numbers_that_are_drawn_anew():
    numbers = Dataset.random(rerandomize_each_iteration=True).batch(2)
    draw = tf.random.stateless_uniform
    dataset = Dataset.zip((mixed(), numbers)).map(lambda text, seed: number(text) + draw([], tf.reshape(seed, [2])))
    done = apply(RULE, dataset)
    after = "memoized_map(part of <lambda>, calls=AUTOTUNE) | map(rest of <lambda>)"
    assert one_line(done.after) == f"zip()[{NUMBERED}, opaque RandomDataset | batch(2)] | {after}"
    first, second = (list(build(done.after).as_numpy_iterator()) for _epoch in range(2))
    assert first != second


def test_work_on_a_side_that_is_never_the_same_is_left_to_each_epoch():
    def drawn():
        return NUMBERS.map(lambda x: tf.strings.as_string(tf.random.uniform([], maxval=9, dtype=tf.int32)))

    done = apply(RULE, Dataset.zip((mixed(), drawn())).map(both))
    sides = f"zip()[{NUMBERED}, range(0, 12) | map(<lambda>)]"
    assert one_line(done.after) == f"{sides} | {MEMOIZED} | map(rest of both)"
    reason = "side 2 of the zip: <lambda> draws random numbers (RandomUniformInt), so each epoch must run it again"
    assert_refuses(RULE, Dataset.zip((mixed(), drawn())).map(lambda a, b: (a, number(b))), reason)


def test_what_is_made_of_numbers_is_kept_where_no_other_side_has_work():
    def angles(x, text):
        return tf.sin(tf.cast(x, tf.float32)), text

    assert_rewrites(
        RULE,
        Dataset.zip((NUMBERS.shuffle(12, seed=3), TEXTS)).map(angles),
        "zip()[range(0, 12) | enumerate() | shuffle(12, seed=3), tensor_slices] "
        "| memoized_map(part of angles, calls=AUTOTUNE) | map(rest of angles)",
        Keeps.SEQUENCE,
    )


def test_beside_numbers_without_end_it_is_kept_too():
    def noisy(x, seed):
        return tf.sin(tf.cast(x, tf.float32)) + tf.random.stateless_uniform([], tf.stack([seed, seed]))

    dataset = Dataset.zip((NUMBERS.shuffle(12, seed=3), Dataset.counter())).map(noisy)
    sides = "range(0, 12) | enumerate() | shuffle(12, seed=3), tensors | repeat() | scan(<lambda>)"
    after = "memoized_map(part of noisy, calls=AUTOTUNE) | map(rest of noisy)"
    assert_rewrites(RULE, dataset, f"zip()[{sides}] | {after}", Keeps.SEQUENCE)


def test_numbers_that_name_files_are_data(tmp_path):
    for each in range(12):
        (tmp_path / f"{each}").write_text(f"{each}")

    def read(x, text):
        return number(tf.io.read_file(tf.strings.join([f"{tmp_path}/", tf.strings.as_string(x)]))), number(text)

    done = apply(RULE, Dataset.zip((NUMBERS, mixed())).map(read))
    memoized = "memoized_map(part of read, calls=AUTOTUNE)"
    sides = f"zip()[range(0, 12) | enumerate(), {NUMBERED}]"
    assert one_line(done.after) == f"{sides} | {memoized} | {memoized} | map(rest of read)"


def test_rows_that_are_whole_numbers_are_data():
    rows = Dataset.from_tensor_slices(tf.range(24).numpy().reshape(12, 2))
    dataset = Dataset.zip((mixed(), rows)).map(lambda text, row: (number(text), tf.strings.as_string(row)))
    assert one_line(apply(RULE, dataset).after).count("memoized_map") == 2


@pytest.mark.parametrize("start", [0, 5])
def test_an_enumerate_is_a_zip_with_numbers(start):
    shown = f"enumerate({start or ''})"
    after = "memoized_map(part of seeded_by_place, calls=AUTOTUNE) | map(rest of seeded_by_place)"
    dataset = mixed().enumerate(start).map(seeded_by_place)
    assert_rewrites(RULE, dataset, f"{NUMBERED} | {shown} | {after}", Keeps.SEQUENCE)


def test_what_moves_enumerated_elements_stays_where_it_was():
    dataset = mixed().enumerate().shuffle(5, seed=1).skip(2).map(seeded_by_place, num_parallel_calls=2)
    moved = f"{NUMBERED} | enumerate() | shuffle(5, seed=1) | skip(2)"
    after = "memoized_map(part of seeded_by_place, calls=2) | map(rest of seeded_by_place, calls=2)"
    assert_rewrites(RULE, dataset, f"{moved} | {after}", Keeps.SEQUENCE)


def test_what_is_made_of_their_places_alone_is_not_kept():
    assert_no_match(RULE, mixed().enumerate().map(lambda place, text: (tf.sin(tf.cast(place, tf.float32)), text)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: TEXTS.enumerate().shuffle(12).take(5).map(seeded_by_place),
        lambda: Dataset.zip((TEXTS, Dataset.counter())).shuffle(12).take(5).map(seeded),
        lambda: Dataset.zip((TEXTS, NUMBERS)).map(seeded).ignore_errors(),
    ],
)
def test_where_numbers_of_pairs_last_cache_results_keeps_more(make):
    assert_no_match(RULE, make())
    assert [step.rule for step in apply("cache_results", make()).steps] == ["cache_results"]


def test_where_a_cache_serves_enumerated_elements_nothing_is_said():
    assert_no_match(RULE, TEXTS.enumerate().map(seeded_by_place))
    assert_no_match(RULE, TEXTS.enumerate().shuffle(12).map(seeded_by_place))


def test_a_refusal_tells_of_which_side_it_is():
    slow = Answers(caching=(1e-5, 1e-6))
    assert_refuses(RULE, pairs().map(both), "side 1 of the zip: it takes 10 us to make an element", answers=slow)
    assert_refuses(RULE, mixed().enumerate().map(seeded_by_place), "what is enumerated: it takes", answers=slow)
    assert_refuses(
        RULE,
        Dataset.zip((mixed(), Dataset.counter())).map(lambda text, x: (text, tf.sin(tf.cast(x, tf.float32)))),
        "its size is not known: the number of elements is not known before they are read",
        answers=AlwaysFaster(),
    )


def checked_first(text, x):
    tf.debugging.assert_none_equal(x % 12, tf.constant(7, tf.int64))
    tf.debugging.assert_none_equal(text, "5")
    return seeded(text, x)


def checked_last(text, x):
    made = seeded(text, x)
    tf.debugging.assert_none_equal(text, "5")
    tf.debugging.assert_none_equal(x % 12, tf.constant(7, tf.int64))
    return made


def checked_together(text, x):
    made = number(text)
    tf.debugging.assert_none_equal(made, tf.cast(x, tf.float32))
    return made + seeded(text, x)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("checked", [checked_first, checked_last, checked_together])
@pytest.mark.parametrize("ignored", [False, True])
def test_what_is_checked_of_numbers_fails_for_the_same_elements(checked, ignored):
    def make():
        dataset = Dataset.zip((mixed(), Dataset.counter())).map(checked)
        return dataset.ignore_errors() if ignored else dataset

    done = apply(RULE, make(), Keeps.SEQUENCE)
    assert [step.rule for step in done.steps] == [RULE]
    assert compare(make(), build(done.after), Keeps.SEQUENCE, epochs=4) is None


def test_what_numbers_leave_behind_they_leave_in_every_epoch():
    total = tf.Variable(0, dtype=tf.int64)

    def summed(text, x):
        total.assign_add(x)
        return seeded(text, x)

    done = apply(RULE, Dataset.zip((mixed(), NUMBERS)).map(summed))
    assert [step.rule for step in done.steps] == [RULE]
    for epoch in (1, 2):
        assert len(list(build(done.after))) == 12
        assert int(total) == epoch * sum(range(12))


FORMS = {
    "zip": lambda: Dataset.zip((mixed(), Dataset.counter())).map(seeded),
    "enumerate": lambda: mixed().enumerate().map(seeded_by_place),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_iterators_beside_each_other_and_left_midway_give_what_they_gave(form, monkeypatch):
    def read(dataset):
        whole, left, beside = [], iter(dataset), iter(dataset)
        for _ in range(4):
            whole += [next(left), next(beside)]
        whole += [*beside, *dataset.batch(5).take(2), *dataset.skip(3), *dataset]
        return [each.numpy().tolist() for each in whole]

    assert read(optimized(form(), monkeypatch)) == read(form())


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_an_iterator_goes_on_from_a_checkpoint(form, monkeypatch, tmp_path):
    dataset = optimized(form(), monkeypatch)
    iterator = iter(dataset)
    first = [next(iterator) for _ in range(5)]
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "saved"))
    another = iter(dataset)
    tf.train.Checkpoint(iterator=another).restore(path)
    assert [float(x) for x in (*first, *another)] == [float(x) for x in form()]


numbered = st.sampled_from(["counter", "range", "enumerate"])


@given(names=moves, numbers=numbered, after=moves, parallel=st.booleans())
def test_whatever_moves_data_and_what_is_seeded_they_are_the_same(names, numbers, after, parallel):
    def moved(dataset, names):
        for name in names:
            dataset = MOVES[name](dataset)
        return dataset

    def make():
        data = moved(mixed(), names)
        if numbers == "enumerate":
            dataset, function = data.enumerate(2), seeded_by_place
        else:
            dataset = Dataset.zip((data, Dataset.counter() if numbers == "counter" else NUMBERS))
            function = seeded
        return moved(dataset, after).map(function, num_parallel_calls=2 if parallel else None)

    done = apply(RULE, make(), Keeps.SEQUENCE, AlwaysFaster())
    assert compare(make(), build(done.after), Keeps.SEQUENCE, epochs=3) is None


def test_elements_with_a_none_are_left_alone():
    with_none = Dataset.range(8).map(lambda x: (x, None))
    pairs = Dataset.zip((with_none, Dataset.range(8).shuffle(8))).map(lambda a, b: (tf.sin(float(a[0])), b))
    assert not apply(RULE, pairs, Keeps.TRAINING, AlwaysFaster()).steps
