import pytest
import tensorflow as tf

import autopipe
from autopipe.optimizer import rewrite
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules import Keeps
from autopipe.verify import compare
from sides import AlwaysFaster, Answers, apply, assert_no_match, assert_refuses, assert_rewrites, named

RULE = "cache_inner_work"
Dataset = tf.data.Dataset
MADE = "range(0, 9) | map(<lambda>)"
AT = "parallel_interleave(filename_to_dataset, cycle=1, deterministic=True)"


@pytest.fixture
def files(tmp_path):
    for number in range(3):
        rows = "".join(f"{number},{row / 4},row {row}\n" for row in range(number * 20))
        (tmp_path / f"{number}.csv").write_text(f"file,quarter,name\n{rows}")
    return sorted(str(path) for path in tmp_path.iterdir())


def made(files, **arguments):
    return tf.data.experimental.make_csv_dataset(files, 4, num_epochs=1, label_name="quarter", **arguments)


def rows(file):
    return tf.data.experimental.CsvDataset(file, [tf.int32, tf.float32, tf.string], header=True)


def test_refuses_where_the_shuffle_after_another_cache_would_begin_to_wait_long():
    parsed = Dataset.range(60).shuffle(60).map(lambda x: tf.strings.length(tf.strings.as_string(tf.range(x))))
    kept = Dataset.range(60).filter(lambda x: tf.strings.length(tf.strings.as_string(x)) > 0)
    zipped = Dataset.zip((parsed, kept.apply(tf.data.experimental.assert_cardinality(60))))
    rules = [named("cache_fixed_work"), named(RULE)]
    for seconds, caches in ((1e-3, 2), (1.0, 1)):
        done = rewrite(extract(zipped), rules, keeps=Keeps.TRAINING, measurements=Answers(caching=(seconds, 1e-5)))
        assert one_line(done.after).count("cache()") == caches
    assert any("a first element may wait no longer than 5 s" in each.reason for each in done.refusals)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("keeps", [Keeps.TRAINING, Keeps.ELEMENTS])
@pytest.mark.parametrize("reads", [1, 2, 3])
def test_rows_of_make_csv_dataset_are_parsed_once(files, reads, keeps):
    dataset = made(files, shuffle=False, num_parallel_reads=reads)
    at = AT.replace("cycle=1", f"cycle={reads}")
    expected = f"tensor_slices | {at} | cache() | batch(4) | map(map_fn) | prefetch(AUTOTUNE)"
    done = assert_rewrites(RULE, dataset, expected, keeps)
    assert "assumes the files stay as they are" in done.steps[0].proofs[1].because


def test_rows_are_kept_before_their_shuffle_which_goes_on_from_its_seed(files):
    dataset = made(files[2:], shuffle_seed=3, shuffle_buffer_size=20)
    expected = f"tensor_slices | shuffle(1, seed=3) | {AT} | cache() | shuffle(20, seed=3)"
    assert_rewrites(RULE, dataset, f"{expected} | batch(4) | map(map_fn) | prefetch(AUTOTUNE)", Keeps.ELEMENTS)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "read",
    [
        lambda names: names.flat_map(rows),
        lambda names: names.interleave(rows, cycle_length=2),
        lambda names: names.interleave(rows, cycle_length=2, num_parallel_calls=2),
        lambda names: names.interleave(lambda file: rows(file).filter(lambda *row: row[1] > 1)),
    ],
)
def test_files_that_an_author_reads_one_by_one_are_parsed_once_too(files, read):
    dataset = read(Dataset.from_tensor_slices(files))
    assert "cache()" in apply(RULE, dataset.batch(2)).steps[0].after
    assert compare(dataset, autopipe.optimize(dataset, rules=[RULE]), Keeps.ELEMENTS, epochs=3) is None


def test_rows_of_one_reader_are_parsed_once_and_then_what_is_made_of_them(files):
    expected = "tensor_slices | csv_files() | cache() | batch(2)"
    assert_rewrites(RULE, rows(files).batch(2), expected, Keeps.ELEMENTS)
    dataset = rows(files).map(lambda file, quarter, name: (name, quarter + 1)).shuffle(9, seed=1)
    tree = rewrite(
        extract(dataset), [named(RULE), named("cache_after_map")], keeps=Keeps.ELEMENTS, measurements=AlwaysFaster()
    ).after
    assert one_line(tree) == "tensor_slices | csv_files() | map(<lambda>) | cache() | shuffle(9, seed=1)"


def test_repeated_rows_are_parsed_in_the_first_repetition(files):
    dataset = Dataset.from_tensor_slices(files).flat_map(rows)
    assert_rewrites(RULE, dataset.repeat(2), "tensor_slices | flat_map(rows) | cache() | repeat(2)", Keeps.ELEMENTS)


def test_refuses_names_that_are_mixed_in_every_epoch(files):
    assert_refuses(RULE, made(files), "shuffle(3) gives each repetition its own order")


def test_one_order_of_a_name_is_no_order(files):
    assert apply(RULE, made(files[:1])).steps


def test_refuses_files_that_may_change_where_the_sequence_is_kept(files):
    dataset = Dataset.from_tensor_slices(files).flat_map(rows)
    for each in (dataset, rows(files)):
        assert_refuses(RULE, each, "reads files", Keeps.SEQUENCE)


def test_refuses_where_the_order_is_free(files):
    free = made(files, shuffle=False, num_parallel_reads=2, sloppy=True)
    assert_refuses(RULE, free, "frees the order of each repetition")


def test_refuses_rows_that_do_not_fit_and_parsing_that_costs_little(files):
    dataset = Dataset.from_tensor_slices(files).flat_map(rows)
    assert_refuses(RULE, dataset, "RAM budget", answers=Answers(cache_bytes=10**10))
    for caching in ((9e-6, 5e-6), (5e-6, 1.5e-6)):
        assert_refuses(RULE, dataset, "us to make an element", answers=Answers(caching=caching))
    assert apply(RULE, dataset, answers=Answers(caching=(9e-6, 4e-6))).steps


def test_refuses_where_errors_are_left_out_and_where_an_epoch_ends_before(files):
    dataset = Dataset.from_tensor_slices(files).flat_map(rows)
    assert_refuses(RULE, dataset.ignore_errors(), "ignore_errors()")
    assert_refuses(RULE, dataset.take(5), "take(5)")


def test_says_nothing_where_the_author_caches_and_of_other_files(files):
    dataset = Dataset.from_tensor_slices(files).flat_map(rows)
    done = apply(RULE, dataset.batch(2).cache())
    assert (done.steps, done.refusals) == ((), ())
    assert_no_match(RULE, Dataset.from_tensor_slices(files).flat_map(tf.data.TextLineDataset))


def test_a_row_that_cannot_be_parsed_fails_in_every_epoch(files, monkeypatch):
    with open(files[2], "a") as file:
        file.write("no number,1,end\n")
    monkeypatch.setattr(SampleMeasurements, "cache_bytes", lambda *_: 1000)
    monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1e-3, 1e-5))
    dataset = made(files[2:], shuffle=False, num_rows_for_inference=9)
    optimized = autopipe.optimize(dataset, rules=[RULE])
    assert optimized.plan.rules == (RULE,)
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a valid int32"):
            list(optimized)


def sentences(count=9):
    return Dataset.range(count).map(lambda x: tf.strings.as_string(x * 7))


def letters(text):
    return Dataset.from_tensor_slices(tf.strings.bytes_split(text))


def is_long(text):
    return tf.strings.length(text) > 1


def longer(total, text):
    return total + tf.strings.length(text), tf.strings.join([text, tf.strings.as_string(total)])


def by_length(text):
    return tf.cast(tf.strings.length(text), tf.int64)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda texts: texts.flat_map(letters), "flat_map(letters)"),
        (lambda texts: texts.interleave(letters, cycle_length=2), "interleave(letters, cycle=2)"),
        (lambda texts: texts.filter(is_long), "filter(is_long)"),
        (lambda texts: texts.scan(0, longer), "scan(longer)"),
        (lambda texts: texts.take_while(lambda text: tf.strings.length(text) < 2), "take_while(<lambda>)"),
        (
            lambda texts: texts.group_by_window(by_length, lambda _, window: window.batch(3), window_size=3),
            "group_by_window(<lambda>)",
        ),
    ],
    ids="flat_map interleave filter scan take_while group_by_window".split(),
)
def test_work_of_any_stage_is_done_once(made, expected, keeps):
    assert_rewrites(
        RULE, made(sentences()).shuffle(9, seed=2), f"{MADE} | {expected} | cache() | shuffle(9, seed=2)", keeps
    )


def test_a_filter_inside_of_what_files_hold_is_work_of_the_stage_that_opens_them():
    dataset = sentences().flat_map(lambda text: letters(text).filter(lambda letter: tf.strings.length(letter) > 0))
    assert_rewrites(RULE, dataset, f"{MADE} | flat_map(<lambda>) | cache()")


def test_it_takes_the_place_of_a_cache_right_before():
    done = assert_rewrites(
        RULE, sentences().cache().flat_map(letters).batch(2), f"{MADE} | flat_map(letters) | cache() | batch(2)"
    )
    assert "no cache keeps its results yet" in done.steps[0].reasons


def test_refuses_where_others_read_that_cache_too():
    cached = sentences().cache()
    dataset = cached.filter(is_long).concatenate(cached.filter(lambda text: tf.strings.length(text) < 2))
    assert not apply(RULE, dataset).steps
    reasons = {refusal.reason for refusal in apply(RULE, dataset).refusals}
    assert reasons == {"cache() is read twice, and both get all elements from it, made once"}


def test_a_generator_whose_author_declares_that_it_keeps_no_state_runs_once():
    runs = []

    @autopipe.stateless
    def declared():
        runs.append(1)
        yield from range(5)

    def undeclared():
        yield from range(5)

    spec = tf.TensorSpec((), tf.int64)
    done = apply(RULE, Dataset.from_generator(declared, output_signature=spec).shuffle(5))
    assert done.steps[0].after == "... | cache()"
    dataset = build(done.after)
    runs.clear()
    for _ in range(3):
        assert sorted(dataset.as_numpy_iterator()) == list(range(5))
    assert len(runs) == 1
    assert_refuses(RULE, Dataset.from_generator(undeclared, output_signature=spec), "runs Python code")


@pytest.mark.parametrize(
    "made",
    [
        lambda texts: texts.flat_map(lambda text: Dataset.from_tensors(text).repeat(2)),
        lambda texts: texts.window(2).flat_map(lambda window: window.batch(2)),
        lambda texts: texts.filter(lambda text: tf.size(text) % 2 == 1),
        lambda texts: texts.scan(0, lambda count, text: (count + 1, (count, text))),
    ],
    ids="repeats windows asks counts".split(),
)
def test_says_nothing_of_what_is_next_to_nothing(made):
    assert_no_match(RULE, made(sentences()))


def test_refuses_what_differs_between_epochs():
    drawing = sentences().filter(lambda text: (tf.strings.length(text) > 0) & (tf.random.uniform(()) < 0.5))
    assert_refuses(RULE, drawing, "draws random numbers")
    assert_refuses(RULE, sentences().shuffle(9).flat_map(letters), "shuffle(9) gives each repetition its own order")


def lines(folder, name, count):
    (folder / name).write_text("".join(f"{name} {line}\n" for line in range(count)))
    return tf.data.TextLineDataset(str(folder / name))


def upper(line):
    return tf.strings.upper(line)


@pytest.mark.parametrize("count", [7, 9])
def test_what_a_zip_makes_of_files_that_may_end_apart_is_kept(tmp_path, count):
    dataset = Dataset.zip((lines(tmp_path, "a", 9).map(upper), lines(tmp_path, "b", count))).batch(2).shuffle(2, seed=1)
    sides = "tensor_slices | text_files() | map(upper), tensor_slices | text_files()"
    assert_rewrites(RULE, dataset, f"zip()[{sides}] | cache() | batch(2) | shuffle(2, seed=1)", Keeps.ELEMENTS)


def test_elements_of_sides_of_other_lengths_are_kept_in_place_of_the_cache_of_one():
    dataset = Dataset.zip(
        (Dataset.range(5).map(tf.strings.as_string).cache(), Dataset.range(7).map(tf.strings.as_string))
    )
    sides = "range(0, 5) | map(as_string), range(0, 7) | map(as_string)"
    assert_rewrites(RULE, dataset, f"zip()[{sides}] | cache()")


def test_a_zip_is_left_to_the_caches_of_its_sides_and_where_these_only_hand_on(tmp_path):
    equal = Dataset.range(5).map(tf.strings.as_string)
    assert_no_match(RULE, Dataset.zip((equal, equal)))
    assert_no_match(
        RULE, Dataset.zip((lines(tmp_path, "a", 5), lines(tmp_path, "b", 5).map(lambda line: (line, line))))
    )
    cached = lines(tmp_path, "c", 5).map(upper).cache()
    assert_no_match(RULE, Dataset.zip((cached, lines(tmp_path, "d", 5))))


def test_refuses_a_zip_with_a_side_that_differs_in_each_epoch(tmp_path):
    mixed = Dataset.zip((lines(tmp_path, "a", 9).map(upper), lines(tmp_path, "b", 9).shuffle(3)))
    assert_refuses(RULE, mixed, "shuffle(3) gives each repetition its own order")
