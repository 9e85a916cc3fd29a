"""Verifying finds what a wrong rewrite would do to the elements."""

import os

import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe.errors import VerificationError
from autopipe.optimizer import Rewriting, rewrite
from autopipe.pipeline import ir
from autopipe.pipeline.extract import extract
from autopipe.rules import Keeps, Rewrite, Rule, catalogue
from autopipe.runtime.derived import built_after
from autopipe.runtime.digests import Row
from autopipe.runtime.iterators import Iterators
from autopipe.verify import compare, verify
from sides import Answers

Dataset = tf.data.Dataset
TEN = Dataset.range(10)

WRONG = {
    "lost": (TEN.skip(1), {*Keeps}),
    "repeated": (TEN.concatenate(Dataset.range(1)), {*Keeps}),
    "another type": (TEN.map(lambda x: tf.cast(x, tf.int32)), {*Keeps}),
    "changed": (TEN.map(lambda x: x + tf.cast(x == 3, tf.int64)), {Keeps.SEQUENCE, Keeps.ELEMENTS}),
    "other order": (TEN.shuffle(10, seed=1), {Keeps.SEQUENCE}),
    "nothing": (TEN.prefetch(2), set()),
}


@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize("name", WRONG)
def test_finds_exactly_what_the_promise_forbids(name, keeps):
    other, forbidden = WRONG[name]
    assert (compare(TEN, other, keeps) is not None) == (keeps in forbidden)


def test_rounding_breaks_the_sequence_and_not_the_elements():
    thirds = Dataset.from_tensor_slices(np.arange(5, dtype="float32") / 3)
    nearly = thirds.map(lambda x: x + 1e-7)
    assert compare(thirds, nearly, Keeps.SEQUENCE) == "epoch 0: element 0 differs"
    assert compare(thirds, nearly, Keeps.ELEMENTS) is None


def test_strings_ragged_and_sparse_elements_are_compared_by_value():
    for make in (
        lambda shift: TEN.map(lambda x: tf.strings.as_string(x + shift)),
        lambda shift: TEN.map(lambda x: tf.RaggedTensor.from_row_lengths(tf.range(x) + shift, [x])),
        lambda shift: TEN.map(lambda x: tf.SparseTensor([[0]], [x + shift], [3])),
    ):
        assert compare(make(0), make(0), Keeps.SEQUENCE) is None
        assert compare(make(0), make(1), Keeps.ELEMENTS) is not None


def test_a_single_changed_pixel_is_found_and_rounding_is_not():
    images = np.random.default_rng(0).random((6, 32, 32, 3)).astype(np.float32)
    rounded = images * (1 + np.float32(1e-6))
    wrong = images.copy()
    wrong[3, 5, 6, 1] += 0.05
    before, nearly, after = (Dataset.from_tensor_slices(each).batch(2) for each in (images, rounded, wrong))

    assert compare(before, nearly, Keeps.ELEMENTS) is None
    assert compare(before, after, Keeps.ELEMENTS) == "epoch 0: 1 elements are lost and 1 are new"
    assert compare(before, after.unbatch().shuffle(6).batch(3), Keeps.ELEMENTS) is not None
    assert compare(before, nearly.unbatch().shuffle(6).batch(3), Keeps.ELEMENTS) is None


@pytest.mark.parametrize("shape", [(6,), (6, 8, 5)], ids=["numbers", "spectrograms"])
def test_complex_numbers_may_round_and_not_change(shape):
    real, imaginary = np.random.default_rng(0).random((2, *shape)).astype(np.float32)
    waves = real + 1j * imaginary
    nearly = waves * (1 + np.float32(1e-6))
    wrong = waves.copy()
    wrong.flat[-1] += 0.05j
    before, rounded, after = (Dataset.from_tensor_slices(each).batch(2) for each in (waves, nearly, wrong))

    assert compare(before, rounded, Keeps.SEQUENCE) == "epoch 0: element 0 differs"
    assert compare(before, rounded, Keeps.ELEMENTS) is None
    assert compare(before, after, Keeps.ELEMENTS) == "epoch 0: 1 elements are lost and 1 are new"


def test_not_a_number_and_infinity_are_values():
    odd = Dataset.from_tensor_slices(np.array([np.nan, np.inf, -np.inf, 1.0], np.float32))
    assert compare(odd, odd.shuffle(4, seed=1), Keeps.ELEMENTS) is None
    assert compare(odd, odd.map(lambda x: tf.where(tf.math.is_nan(x), 0.0, x)), Keeps.ELEMENTS) is not None


def test_training_finds_another_distribution_and_epochs_that_became_the_same():
    numbers = Dataset.range(200).map(lambda x: tf.cast(x, tf.float32))
    random = numbers.map(lambda x: x + tf.random.normal(()))
    shifted = numbers.map(lambda x: x + tf.random.normal((), mean=80.0))
    frozen = random.cache()

    assert compare(random, numbers.map(lambda x: x + tf.random.normal(())), Keeps.TRAINING) is None
    assert "the mean of component 0" in compare(random, shifted, Keeps.TRAINING)
    assert compare(random, frozen, Keeps.TRAINING) == "epochs that differed are now the same"


@pytest.mark.parametrize("keeps", list(Keeps))
@pytest.mark.parametrize(("before", "after"), [(40, 5), (5, 40), (40, 0)])
def test_one_that_ends_before_the_other_is_read_to_its_end_has_lost_elements(before, after, keeps):
    assert compare(Dataset.range(before), Dataset.range(after), keeps, limit=20) is not None


def test_of_elements_that_have_no_end_types_are_compared():
    few = Dataset.range(3).repeat()
    assert compare(few, few.shuffle(3), Keeps.ELEMENTS, limit=60) is None
    assert compare(few, few.map(lambda x: tf.cast(x, tf.float32)), Keeps.ELEMENTS, limit=60) is not None
    assert (
        compare(few, few.map(lambda x: x[tf.newaxis]), Keeps.TRAINING, limit=60) == "epoch 0: the types of rows changed"
    )


def test_the_beginning_of_what_is_sorted_may_be_another_each_time():
    files = Dataset.range(10).shuffle(10).flat_map(lambda x: Dataset.from_tensors(x).repeat(100))
    for _ in range(4):
        assert compare(files, files, Keeps.ELEMENTS, limit=150) is None


def test_an_element_that_is_no_batch_is_compared_as_a_whole():
    images = Dataset.from_tensors(tf.random.stateless_uniform([8, 4, 3], [1, 2]))
    assert compare(images, images.map(tf.image.flip_up_down), Keeps.ELEMENTS) is not None
    words = Dataset.from_tensor_slices([["a", "b"], ["c", "d"]])
    assert compare(words, Dataset.from_tensor_slices([["a", "d"], ["c", "b"]]), Keeps.ELEMENTS) is not None
    assert compare(words, words.map(lambda row: row[::-1]), Keeps.ELEMENTS) is not None
    assert compare(words.batch(2), words.shuffle(2).batch(1), Keeps.ELEMENTS) is None


def test_where_batches_begin_counts_for_none_whatever_a_function_makes_of_them():
    rows = Dataset.range(6).batch(4).map(lambda rows: (rows, tf.cast(rows, tf.float32) / 2))
    others = Dataset.range(6).shuffle(6).batch(4).map(lambda rows: (rows, tf.gather(tf.range(6.0) / 2, rows)))
    assert compare(rows, others, Keeps.ELEMENTS) is None


def test_numbers_beside_those_that_are_none_are_compared():
    rows = [[np.nan, 1.0, np.inf], [np.nan, 2.0, -np.inf]]
    others = [[np.nan, 9.0, np.inf], [np.nan, -7.0, -np.inf]]
    before, after = (Dataset.from_tensor_slices(np.float32(each)).batch(2) for each in (rows, others))
    assert compare(before, before.unbatch().batch(1), Keeps.ELEMENTS) is None
    assert compare(before, after, Keeps.ELEMENTS) is not None
    assert compare(before, before.map(tf.abs), Keeps.ELEMENTS) is not None


def test_the_largest_numbers_are_what_they_are():
    most = Dataset.from_tensor_slices([np.finfo(np.float64).max, 1.0, np.finfo(np.float64).min])
    assert compare(most, most, Keeps.ELEMENTS) is None
    assert compare(most, most.map(tf.negative), Keeps.ELEMENTS) is not None


def test_of_a_pipeline_without_end_the_beginning_is_compared():
    endless = Dataset.range(10).repeat()
    assert compare(endless, endless, Keeps.SEQUENCE, limit=30) is None
    assert compare(endless, endless.skip(1), Keeps.SEQUENCE, limit=30) == "epoch 0: element 0 differs"
    assert compare(endless, endless, Keeps.SEQUENCE, limit=10**9, seconds=0.2) is None


@pytest.mark.parametrize(("limit", "aside"), [(9, 2), (2, 0)], ids=["read whole", "left while it may draw"])
def test_nobody_waits_for_the_end_of_an_iterator_that_does_nothing_any_more(limit, aside, monkeypatch):
    seen = []
    monkeypatch.setattr("autopipe.runtime.digests.dispose_aside", seen.append)
    assert compare(Dataset.range(3), Dataset.range(3), Keeps.SEQUENCE, epochs=1, limit=limit) is None
    assert len(seen) == aside


def rewritten(dataset, *rules, keeps=Keeps.SEQUENCE):
    return rewrite(extract(dataset), [*catalogue(), *rules], keeps=keeps, measurements=Answers())


def fail(x):
    with tf.control_dependencies([tf.debugging.assert_less(x, tf.constant(0, tf.int64))]):
        return tf.identity(x)


def call_twice(node):
    """map -> map | map."""
    match node:
        case ir.Map(name=None, fn=fn):
            return Rewrite(ir.Map(input=ir.Map(input=node.input, fn=fn, name="once"), fn=fn, name="twice"))
    return None


def test_the_rule_that_breaks_the_promise_is_named():
    broken = Rule("call_twice", Keeps.SEQUENCE, call_twice)
    done = rewritten(Dataset.range(20).cache().map(lambda x: x + 1), broken)
    with pytest.raises(VerificationError, match="after call_twice epoch 0: element 0 differs.*Nothing was changed"):
        verify(done)


@pytest.mark.parametrize(
    ("broken", "words"),
    [(lambda made: made.skip(1), "elements became"), (lambda made: made.map(fail), "an element now fails")],
    ids=["loses an element", "fails"],
)
def test_what_iterators_put_around_the_rewritten_pipeline_is_compared_too(monkeypatch, broken, words):
    monkeypatch.setattr(Iterators, "_pipeline", lambda self, made, reading: broken(built_after(made, reading.after)))
    with pytest.raises(VerificationError, match=f"after all its rules together epoch 0: .*{words}"):
        autopipe.optimize(Dataset.range(20).map(lambda x: x + 1), verify=True, seconds=0)


def test_an_iterator_that_cannot_be_made_is_a_difference():
    class Unmade:
        def __iter__(self):
            raise tf.errors.InvalidArgumentError(None, None, "expected a scalar")

    done = rewritten(Dataset.range(20).map(lambda x: x + 1))
    with pytest.raises(VerificationError, match=r"an element now fails \(expected a scalar\)"):
        verify(done, run=Unmade())


def test_what_a_pipeline_does_not_repeat_is_not_asked_of_the_other():
    shuffled = Dataset.range(60).map(lambda x: x + 1).shuffle(60).batch(4)
    random = Dataset.range(60).map(lambda x: tf.cast(x, tf.float32) + tf.random.uniform(())).batch(4)
    assert "keeping elements" in verify(rewritten(shuffled, keeps=Keeps.TRAINING))
    assert "keeping training" in verify(rewritten(random, keeps=Keeps.TRAINING))
    assert "keeping sequence" in verify(rewritten(Dataset.range(60).map(lambda x: x + 1)))


def test_where_the_number_may_differ_it_is_said_what_may_leave_elements_out():
    def drawn(x):
        return tf.debugging.check_numerics(tf.cast(x, tf.float32) / tf.random.uniform(()), "")

    def said(dataset):
        return verify(Rewriting(tree := extract(dataset), tree, (), ()))

    assert "may give another number of elements each time, since what ignore_errors() leaves out" in said(
        TEN.map(drawn).ignore_errors()
    )
    assert "keeping training" in said(TEN.map(lambda x: tf.random.uniform(())).ignore_errors())


def test_what_was_seen_not_to_repeat_itself_is_not_compared():
    names = iter(range(99))
    growing = Dataset.from_generator(lambda: iter(range(next(names))), output_signature=tf.TensorSpec((), tf.int64))
    tree = extract(growing)
    assert verify(Rewriting(tree, tree, (), ())).startswith("not compared: run again as it was written")


def test_a_difference_that_the_written_pipeline_shows_against_itself_is_none():
    words = Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3], [], [4, 5, 6]])).shuffle(4)
    drawn = extract(words.concatenate(words.take(2)))
    for _ in range(20):
        verify(Rewriting(drawn, drawn, (), ()))


def test_optimize_verifies_on_request_and_says_what_it_compared():
    dataset = autopipe.optimize(Dataset.range(60).cache().map(lambda x: x + 1).batch(4), verify=True)
    assert "120 rows of 2 epochs compared, keeping sequence" in str(dataset.explain())
    assert "Verified" not in str(autopipe.optimize(Dataset.range(60)).explain())


def kept_in_a_file(factor, file):
    return Dataset.range(40).map(lambda x: x * factor).cache(str(file)).batch(4)


def test_what_is_wrong_before_a_file_that_nobody_has_written_is_found_and_none_is_written(tmp_path):
    written, wrong = (extract(kept_in_a_file(factor, tmp_path / "kept")) for factor in (2, 3))
    with pytest.raises(VerificationError, match="epoch 0: element 0 differs"):
        verify(Rewriting(written, wrong, (), ()))
    assert "80 rows of 2 epochs compared" in verify(Rewriting(written, written, (), ()))
    assert not os.listdir(tmp_path)


def test_optimize_verifies_what_its_author_keeps_in_a_file_and_writes_none(tmp_path):
    dataset = autopipe.optimize(kept_in_a_file(2, tmp_path / "kept"), seconds=0, verify=True)
    assert "rows of 2 epochs compared" in str(dataset.explain())
    assert not os.listdir(tmp_path)
    assert [int(x) for batch in dataset for x in batch] == list(range(0, 80, 2))
    assert os.listdir(tmp_path)
    again = autopipe.optimize(kept_in_a_file(3, tmp_path / "kept"), seconds=0, verify=True)
    assert "rows of 2 epochs compared" in str(again.explain())


def test_a_file_that_its_author_writes_meanwhile_is_written_by_nobody_else(tmp_path):
    dataset = kept_in_a_file(2, tmp_path / "kept")
    iterator = iter(dataset)
    first = next(iterator)
    autopipe.optimize(dataset, seconds=0, verify=True)
    assert [int(x) for batch in (first, *iterator) for x in batch] == list(range(0, 80, 2))


def test_verifying_leaves_the_shuffles_and_generators_of_the_user_alone():
    generator = tf.random.Generator.from_seed(1)
    dataset = Dataset.range(30).map(lambda x: generator.uniform(())).shuffle(30, seed=4)
    first, state = [float(x) for x in dataset], generator.state.numpy().tolist()

    generator.reset_from_seed(1)
    again = Dataset.range(30).map(lambda x: generator.uniform(())).shuffle(30, seed=4)
    autopipe.optimize(again, keeps="sequence", verify=True)

    assert [float(x) for x in again] == first
    assert generator.state.numpy().tolist() == state


@pytest.mark.parametrize(
    ("elements", "kind"),
    [
        (lambda: Dataset.range(9).window(3), "Dataset"),
        (lambda: Dataset.range(5).map(tf.experimental.Optional.from_value), "Optional"),
        (lambda: Dataset.range(4).map(lambda x: tf.TensorArray(tf.int64, size=1).unstack([x])), "TensorArray"),
        (lambda: Dataset.range(4).map(lambda x: (x, Dataset.range(x))), "Dataset"),
    ],
    ids=["window", "optional", "array", "dataset"],
)
def test_elements_without_values_are_not_compared_and_it_is_said(elements, kind):
    optimized = autopipe.optimize(elements(), verify=True, seconds=0)
    assert f"not compared: elements hold a {kind}, which has no values" in optimized.explain().rewriting.verified


@pytest.mark.parametrize("elements", [lambda x: (x, None), lambda x: {"x": tf.ragged.range([x, 2]), "none": None}])
def test_elements_with_a_none_are_compared(elements):
    optimized = autopipe.optimize(Dataset.range(4).map(elements), verify=True, seconds=0)
    assert " compared, keeping sequence" in optimized.explain().rewriting.verified


def test_of_many_rows_that_differ_no_more_are_compared_than_tell_it(monkeypatch):
    compared = []
    like = Row.like
    monkeypatch.setattr(Row, "like", lambda row, *others: compared.append(row) or like(row, *others))
    rows = np.random.default_rng(1).normal(size=(2, 5000, 4)).astype("float32")
    before, after = (tf.data.Dataset.from_tensor_slices(each).batch(64) for each in rows)
    difference = compare(before, after, Keeps.ELEMENTS, epochs=1, limit=5000)
    assert difference == "epoch 0: at least 100 elements are lost and at least 100 are new"
    assert len(compared) < 100_000
