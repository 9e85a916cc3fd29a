import numpy as np
import pytest
import tensorflow as tf

from autopipe.optimizer import rewrite
from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.rules import Keeps, catalogue
from autopipe.verify import compare
from sides import AlwaysFaster, Answers, apply, assert_no_match, assert_refuses, assert_rewrites

RULE = "map_after_interleave"
Dataset = tf.data.Dataset
AUTOTUNE = tf.data.AUTOTUNE
ROWS = np.arange(24, dtype="float32").reshape(6, 4)
SLICES = Dataset.from_tensor_slices(ROWS)


def rooted(x):
    return tf.math.sqrt(x) * 3


def roots(row):
    return Dataset.from_tensor_slices(row).map(rooted)


def noisy(row):
    return Dataset.from_tensor_slices(row).map(lambda x: tf.sqrt(x) + tf.random.uniform(()))


def with_order(dataset, deterministic):
    options = tf.data.Options()
    options.deterministic = deterministic
    return dataset.with_options(options)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("keeps", Keeps)
@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda: SLICES.flat_map(roots), "flat_map(roots)"),
        (lambda: SLICES.interleave(roots, cycle_length=3, block_length=2), "interleave(roots, cycle=3, block=2)"),
        (lambda: SLICES.interleave(roots, num_parallel_calls=2), "interleave(roots, cycle=AUTOTUNE, calls=2)"),
    ],
)
def test_the_map_comes_after_the_stage_in_the_same_order(read, expected, keeps):
    assert_rewrites(RULE, read(), f"tensor_slices | {expected} | map(rooted, calls=AUTOTUNE)", keeps)


def test_windows_and_groups_are_mapped_after_they_were_made():
    windows = SLICES.window(3, shift=1).flat_map(lambda window: window.batch(3).map(rooted))
    assert_rewrites(
        RULE, windows, "tensor_slices | window(3, shift=1) | flat_map(<lambda>) | map(rooted, calls=AUTOTUNE)"
    )
    groups = SLICES.group_by_window(
        lambda row: tf.cast(row[0] > 8, tf.int64),
        lambda key, window: window.batch(2).map(lambda rows: (rooted(rows), key)),
        window_size=2,
    )
    done = assert_rewrites(RULE, groups, "tensor_slices | group_by_window(<lambda>) | map(<lambda>, calls=AUTOTUNE)")
    assert "<lambda> cannot fail" in done.steps[0].reasons


def test_other_rules_see_it_then():
    dataset = SLICES.interleave(roots).shuffle(9).batch(2)
    rewritten = rewrite(extract(dataset), catalogue(), keeps=Keeps.TRAINING, measurements=AlwaysFaster())
    assert "map(rooted, calls=AUTOTUNE) | cache() | shuffle(9)" in one_line(rewritten.after)


def test_as_many_calls_wait_at_once_as_did_inside():
    at_once = SLICES.interleave(roots, cycle_length=999, num_parallel_calls=999)
    (mapped,) = (node for node in trees.walk(apply(RULE, at_once).after) if isinstance(node, ir.Map))
    assert (mapped.num_parallel_calls, mapped.use_unbounded_threadpool) == (999, True)
    in_turn = SLICES.interleave(roots, num_parallel_calls=999)
    assert one_line(apply(RULE, in_turn).after).endswith("map(rooted, calls=AUTOTUNE)")


def test_what_was_free_stays_free_and_no_more_than_that():
    at_once = SLICES.interleave(roots, cycle_length=2, num_parallel_calls=2, deterministic=False)
    assert one_line(apply(RULE, at_once).after).endswith("map(rooted, calls=AUTOTUNE, deterministic=False)")
    free_inside = SLICES.interleave(
        lambda row: Dataset.from_tensor_slices(row).map(rooted, AUTOTUNE, deterministic=False), cycle_length=2
    )
    assert one_line(apply(RULE, free_inside).after).endswith("map(rooted, calls=AUTOTUNE)")
    for freed in (free_inside, SLICES.interleave(roots, cycle_length=2)):
        done = apply(RULE, with_order(freed, False))
        assert one_line(done.after).endswith("map(rooted, calls=AUTOTUNE, deterministic=True) | options")
    fixed = SLICES.interleave(lambda row: Dataset.from_tensor_slices(row).map(rooted, 2, deterministic=True))
    assert one_line(apply(RULE, fixed).after).endswith("map(rooted, calls=2, deterministic=True)")


def uneven(x):
    many = tf.cast(200_000 * (1 - x % 2) + 1, tf.int32)
    return x + tf.cast(tf.reduce_sum(tf.sort(tf.random.stateless_uniform((many,), [1, 2]))) * 0, tf.int64)


def test_what_an_option_frees_stays_in_order_where_nothing_was_parallel():
    numbers = Dataset.range(6).flat_map(lambda x: Dataset.range(10 * x, 10 * x + 10).map(uneven))
    done = apply(RULE, with_order(numbers, False), Keeps.SEQUENCE)
    assert one_line(done.after).endswith("map(uneven, calls=AUTOTUNE, deterministic=True) | options")
    assert [int(x) for x in build(done.after)] == list(range(60))
    groups = Dataset.range(60).group_by_window(lambda x: x % 3, lambda _key, some: some.map(uneven), window_size=5)
    done = apply(RULE, with_order(groups, False), Keeps.SEQUENCE)
    assert one_line(done.after).endswith("map(uneven, calls=AUTOTUNE, deterministic=True) | options")


def test_draws_that_nobody_fixed_may_come_in_another_order_where_only_training_is_kept():
    for dataset, calls in (
        (SLICES.flat_map(noisy), ""),
        (SLICES.interleave(noisy, num_parallel_calls=2), ", calls=AUTOTUNE"),
    ):
        done = apply(RULE, dataset)
        assert one_line(done.after).endswith(f"map(<lambda>{calls})")
        assert done.steps[0].keeps is Keeps.TRAINING
        assert_refuses(RULE, dataset, "keeps=elements fixes when it does", Keeps.ELEMENTS)


def test_refuses_draws_of_a_seed_which_each_dataset_begins_anew():
    dataset = SLICES.flat_map(
        lambda row: Dataset.from_tensor_slices(row).map(lambda x: tf.sqrt(x) + tf.random.uniform((), seed=1))
    )
    assert_refuses(RULE, dataset, "draws random numbers from the author's seed")


def test_refuses_to_hold_what_is_much_larger_than_what_was_held():
    def large_before(node):
        return 8.0 * 2**20 if isinstance(node, ir.Interleave) else 4.0

    def written(**arguments):
        return SLICES.interleave(roots, cycle_length=16, **arguments)

    little = Answers(element_bytes=large_before, ram_budget=0)
    refused = "144 elements at once take 1.12 GiB more; 16 MiB is allowed"
    assert_refuses(RULE, written(num_parallel_calls=2), refused, answers=little)
    assert apply(RULE, written(), answers=little).steps
    assert apply(
        RULE, written(num_parallel_calls=2), answers=Answers(element_bytes=large_before, ram_budget=10**10)
    ).steps
    smaller = Answers(element_bytes=lambda node: 12.0 * 2**20 - large_before(node), ram_budget=0)
    assert apply(RULE, written(num_parallel_calls=2), answers=smaller).steps


def test_types_tell_how_large_elements_are_where_there_is_no_time_to_measure():
    for written in (SLICES.interleave(roots, cycle_length=2, num_parallel_calls=2), SLICES.flat_map(roots)):
        assert apply(RULE, written, answers=SampleMeasurements(seconds=0)).steps
    texts = Dataset.from_tensor_slices(["a b", "c"])

    untold = texts.interleave(lambda text: Dataset.from_tensors(text).map(tf.strings.lower), num_parallel_calls=2)
    assert_refuses(RULE, untold, "the size of its elements is not known", answers=SampleMeasurements(seconds=0))


def test_refuses_python():
    dataset = SLICES.flat_map(
        lambda row: Dataset.from_tensor_slices(row).map(lambda x: tf.py_function(np.sqrt, [x], tf.float32))
    )
    assert_refuses(RULE, dataset, "runs Python code")


def test_refuses_where_errors_are_left_out():
    dataset = SLICES.interleave(
        lambda row: Dataset.from_tensor_slices(row).map(lambda x: tf.debugging.check_numerics(tf.sqrt(x - 3), "x"))
    )
    assert_refuses(RULE, dataset.ignore_errors(), "ignore_errors() would leave out other elements")
    before, after = dataset, build(apply(RULE, dataset).after)
    for each in (before, after):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Tensor had NaN"):
            list(each)


def test_refuses_to_call_ahead_where_the_author_had_nothing_called_ahead_and_python_would_see_it():
    generated = Dataset.from_generator(lambda: iter(ROWS), output_signature=tf.TensorSpec((4,), tf.float32))
    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = False
    assert_refuses(RULE, generated.flat_map(roots).with_options(options), "it would run ahead of the consumer")


def test_says_nothing_where_there_is_nothing_to_see():
    assert_no_match(RULE, SLICES.flat_map(lambda row: Dataset.from_tensor_slices(row).map(lambda x: x + 1)))
    assert_no_match(RULE, SLICES.interleave(lambda row: Dataset.from_tensor_slices(row)))
    assert_no_match(RULE, SLICES.map(rooted))


def test_what_is_told_of_a_file_goes_with_its_elements():
    dataset = Dataset.from_tensor_slices((ROWS, np.arange(6))).interleave(
        lambda row, label: Dataset.from_tensor_slices(row).map(lambda x: (rooted(x), label)), cycle_length=4
    )
    done = assert_rewrites(
        RULE, dataset, "tensor_slices | interleave(<lambda>, cycle=4) | map(<lambda>, calls=AUTOTUNE)", Keeps.SEQUENCE
    )
    assert compare(dataset.repeat(2), build(done.after).repeat(2), Keeps.SEQUENCE) is None
