"""Maps at the end of the datasets that a function makes do outside of it what they did inside."""

import numpy as np
import pytest
import tensorflow as tf

from autopipe.functions.parts.last_maps import split_last_maps
from autopipe.pipeline import ir
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract

Dataset = tf.data.Dataset
ROWS = np.arange(12, dtype="float32").reshape(4, 3)
PAIRS = Dataset.from_tensor_slices((ROWS, list("abcd")))
POWER = tf.constant(2.0)
VARIABLE = tf.Variable(3.0)
TABLE = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(list("abc"), [1, 2, 3]), -1)


def values(row):
    return Dataset.from_tensor_slices(row)


def of_row(row, _):
    return values(row).map(lambda x: tf.pow(tf.math.sqrt(x), POWER))


def of_constant(row, _):
    power = tf.constant([2.0, 3.0])
    return values(row).map(lambda x: tf.pow(tf.math.sqrt(x), power))


def with_label(row, name):
    return values(row).map(lambda x: (tf.math.sqrt(x), name))


def with_computed_label(row, name):
    number = TABLE.lookup(name)
    return values(row).map(lambda x: {"x": tf.math.sqrt(x), "label": number, "sum": tf.reduce_sum(row)})


def by_variable(row, _):
    return values(row).map(lambda x: tf.math.sqrt(x) * VARIABLE)


def several(row, name):
    made = values(row).map(lambda x: (tf.math.sqrt(x), x)).map(lambda x, y: (tf.sort([x, y]), name))
    return made.map(lambda x, label: {"x": x, "again": label, "first": row[0]})


def sparse(row, _):
    return values(row).map(lambda x: tf.sparse.from_dense(tf.sort([x, 0.0])))


def ragged(row, _):
    return values(row).map(lambda x: tf.RaggedTensor.from_row_lengths(tf.sort([x, 1.0, 2.0]), [1, 2]))


def read_ahead(row, _):
    return values(row).map(tf.math.sqrt).prefetch(2).prefetch(1)


@tf.function
def traced(x):
    return tf.math.sqrt(x) + 1


def calling(row, _):
    return values(row).map(traced)


OPENING = [
    of_row,
    of_constant,
    with_label,
    with_computed_label,
    by_variable,
    several,
    sparse,
    ragged,
    read_ahead,
    calling,
]


def opened_and_mapped(opening):
    """Return a flat_map, and what it is once its maps were taken out."""
    dataset = PAIRS.flat_map(opening)
    node = extract(dataset)
    opened, maps = split_last_maps(node.fn)
    after = ir.FlatMap(input=node.input, fn=opened)
    for each in maps:
        after = ir.Map(input=after, fn=each.fn)
    return dataset, build(after), maps


def flat(dataset):
    return [[np.asarray(part).tolist() for part in tf.nest.flatten(each, expand_composites=True)] for each in dataset]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("opening", OPENING)
def test_they_give_the_same_bits_and_the_same_type(opening):
    before, after, _ = opened_and_mapped(opening)
    assert before.element_spec == after.element_spec
    assert flat(before) == flat(after)
    assert len(flat(after)) == ROWS.size


def test_what_they_capture_stays_live():
    before, after, _ = opened_and_mapped(by_variable)
    VARIABLE.assign(5.0)
    assert flat(before) == flat(after) != []
    assert flat(after)[1] == [5.0]


def test_what_is_asserted_where_datasets_are_opened_still_is():
    def opening(row, name):
        tf.debugging.assert_none_equal(name, "c", message="no c")
        return values(row).map(tf.math.sqrt)

    for dataset in opened_and_mapped(opening)[:2]:
        with pytest.raises(tf.errors.InvalidArgumentError, match="no c"):
            list(dataset)


def test_each_is_a_map_with_the_name_and_the_arguments_that_its_author_gave():
    def half(x):
        return tf.math.sqrt(x) / 2

    def opening(row, _):
        made = values(row).map(half, num_parallel_calls=3, deterministic=False, use_unbounded_threadpool=True)
        return made.map(lambda x: x + 1, tf.data.AUTOTUNE, deterministic=True).map(tf.math.sqrt)

    _, _, (first, second, third) = opened_and_mapped(opening)
    assert (first.fn.name, second.fn.name) == ("half", "<lambda>")
    assert (first.num_parallel_calls, first.deterministic, first.use_unbounded_threadpool) == (3, False, True)
    assert (second.num_parallel_calls, second.deterministic, second.use_unbounded_threadpool) == (-1, True, False)
    assert (third.num_parallel_calls, third.deterministic) == (None, None)
    assert first.fn.location.startswith("test_last_maps.py:")


def test_maps_below_the_first_one_that_does_work_stay_where_they_are():
    _, after, maps = opened_and_mapped(lambda row, _: values(row).map(lambda x: x * 2).map(tf.math.sqrt))
    assert len(maps) == 1
    assert flat(after) == flat(values(np.sqrt(2 * ROWS.reshape(-1))))


@pytest.mark.parametrize(
    "opening",
    [
        lambda row, name: values(row).map(lambda x: (x * 2, name)),
        lambda row, _: values(row).map(tf.math.sqrt).batch(2),
        lambda row, _: values(row).map(tf.math.sqrt).filter(lambda x: x > 1),
        lambda row, _: values(row),
        lambda row, name: ragged(row, name).map(lambda rows: tf.sort(rows.values)),
    ],
    ids=["no work", "not at the end", "a filter after it", "no map", "takes what is ragged"],
)
def test_there_is_nothing_to_take_out(opening):
    assert split_last_maps(extract(PAIRS.flat_map(opening)).fn) is None


def test_what_has_been_told_once_is_not_told_again():
    node = extract(PAIRS.interleave(with_label))
    opened, _ = split_last_maps(node.fn)
    assert opened.element_types == (tf.float32, tf.string)
    assert split_last_maps(opened) is None
