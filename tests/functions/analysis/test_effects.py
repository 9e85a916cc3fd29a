"""What functions do besides computing: each kind found, also inside branches and calls."""

import keras
import pytest
import tensorflow as tf

from autopipe.functions.analysis.effects import Effects, effects, is_stateful, ops_that_change
from autopipe.pipeline.extract import extract

Dataset = tf.data.Dataset
TABLE = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), 0)
VARIABLE = tf.Variable(1, dtype=tf.int64)
FLIP = keras.layers.RandomFlip("horizontal")
WORDS = keras.layers.StringLookup(vocabulary=["a", "b"])
MUTABLE = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, default_value=0)
SEEN = {"other", "variable_reads"}
GENERATOR = tf.random.Generator.from_seed(1)


@tf.function
def drawing():
    return tf.random.uniform(())


def in_a_branch(x):
    return tf.cond(x > 1, lambda: tf.random.uniform(()), lambda: 0.0)


def in_a_loop(x):
    return tf.while_loop(lambda i: i < x, lambda i: i + tf.cast(tf.random.uniform(()) > -1.0, tf.int64), [x * 0])


def first(state, _x):
    return state


def noise(_x):
    return tf.random.uniform(())


def add_noise(state, _x):
    return state + tf.random.uniform(())


def regions(x, seed):
    images = tf.ones([1, 8, 8, 1]) * tf.cast(x, tf.float32)
    sides = [1.0, 1.4, 1.4, 1.0]
    return [pool(images, sides, seed=seed)[0] for pool in (tf.nn.fractional_max_pool, tf.nn.fractional_avg_pool)]


def remapped(path):
    return tf.raw_ops.GenerateVocabRemapping(
        new_vocab_file=path, old_vocab_file=path, new_vocab_offset=0, num_new_vocab=1
    )


def below(bound):
    return tf.random.stateless_uniform((), [1, 2], 0, bound.assign_add(1), tf.int64)


def as_many_as(number):
    return tf.random.stateless_normal([number.assign_add(1)], [1, 2])


def seeded_by(state):
    return tf.random.stateless_uniform((), [1, state.assign_add(1)])


def glimpse(noise):
    return tf.image.extract_glimpse(tf.ones([1, 8, 8, 1]), [4, 4], [[0.9, 0.9]], noise=noise)


def shuffled_again(x):
    return tf.data.Dataset.range(x).apply(tf.data.experimental.shuffle_and_repeat(9, count=1))


FUNCTIONS = {
    "arithmetic": (lambda x: x * 2 + 1, {}),
    "assertion": (lambda x: (tf.debugging.assert_non_negative(x), x)[1], {}),
    "stateless random": (lambda x: tf.random.stateless_uniform((), [1, 2]), {}),
    "pure branch": (lambda x: tf.cond(x > 1, lambda: x, lambda: -x), {}),
    "reduction": (lambda x: tf.data.Dataset.range(x).reduce(x, lambda s, y: s + y), {}),
    "single element": (lambda x: tf.data.Dataset.range(x).batch(9).get_single_element(), {}),
    "random": (lambda x: tf.random.uniform(()), {"unseeded_random"}),
    "random in a reduction": (lambda x: tf.data.Dataset.range(x).reduce(0.0, add_noise), {"unseeded_random"}),
    "reduction of draws": (lambda x: tf.data.Dataset.range(x).map(noise).reduce(0.0, first), {"unseeded_random"}),
    "reduction of a shuffle": (lambda x: tf.data.Dataset.range(x).shuffle(9).reduce(x, first), {"other"}),
    "reduction of a shuffle that repeats": (lambda x: shuffled_again(x).reduce(x, first), {"other"}),
    "snapshot": (lambda x: tf.data.Dataset.range(x).snapshot("/nowhere").reduce(x, first), {"other"}),
    "regions drawn": (lambda x: regions(x, 0), {"unseeded_random"}),
    "regions of a seed": (lambda x: regions(x, 1), {}),
    "glimpse amid noise": (lambda x: glimpse("uniform"), {"unseeded_random"}),
    "glimpse amid gaussian noise": (lambda x: glimpse("gaussian"), {"unseeded_random"}),
    "glimpse amid zeros": (lambda x: glimpse("zero"), {}),
    "seeded random": (lambda x: tf.random.uniform((), seed=1), {"seeded_random"}),
    "shuffle": (lambda x: tf.random.shuffle([x, x]), {"unseeded_random"}),
    "random in a call": (lambda x: drawing(), {"unseeded_random"}),
    "random in a branch": (in_a_branch, {"unseeded_random"}),
    "random in a loop": (in_a_loop, {"unseeded_random"}),
    "file": (lambda x: tf.io.read_file(tf.strings.as_string(x)), {"file_reads"}),
    "vocabulary": (lambda x: remapped(tf.strings.as_string(x)), {"file_reads"}),
    "table": (lambda x: TABLE.lookup(tf.strings.as_string(x)), {}),
    "mutable table": (lambda x: MUTABLE.lookup(x), {"table_reads"}),
    "table in a call": (lambda x: tf.function(TABLE.lookup)(tf.strings.as_string(x)), {}),
    "keras lookup": (lambda x: WORDS(tf.strings.as_string(x)), {}),
    "variable": (lambda x: x * VARIABLE, {"variable_reads"}),
    "python": (lambda x: tf.py_function(lambda y: y, [x], tf.int64), {"python"}),
    "numpy": (lambda x: tf.numpy_function(lambda y: y, [x], tf.int64), {"python"}),
    "stateless numpy": (lambda x: tf.numpy_function(lambda y: y, [x], tf.int64, stateful=False), {"stateless_python"}),
    "state of draws": (lambda x: seeded_by(VARIABLE), {"generator"}),
    "bound of draws": (lambda x: below(VARIABLE), SEEN),
    "number of draws": (lambda x: as_many_as(VARIABLE), SEEN),
    "assignment": (lambda x: VARIABLE.assign_add(x), {"other", "variable_reads"}),
    "print": (lambda x: (tf.print(x), x)[1], {"other"}),
    "keras layer": (lambda x: FLIP(tf.ones([2, 2, 1]), training=True), {"generator"}),
    "keras layer whose state is looked at": (lambda x: (FLIP(tf.ones([2, 2, 1])), FLIP.generator.state.value), SEEN),
    "keras layer in a branch": (lambda x: tf.cond(x > 1, lambda: FLIP(tf.ones([2, 2, 1])), lambda: 0.0), SEEN),
    "generator": (lambda x: GENERATOR.uniform(()), {"generator"}),
    "generator in a call": (lambda x: tf.function(GENERATOR.uniform)(()), {"generator"}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore")
def test_each_effect_is_found(name):
    function, kinds = FUNCTIONS[name]
    found = effects(extract(Dataset.range(3).map(function)).fn)
    assert {kind for kind in Effects.__dataclass_fields__ if getattr(found, kind)} == set(kinds)
    assert found.pure is (not kinds)


def test_only_python_and_unknown_state_leave_traces():
    number = tf.Variable(1, dtype=tf.int64)
    generator = tf.random.Generator.from_seed(1)
    left = {
        name: effects(extract(Dataset.range(3).map(function)).fn).has_side_effects
        for name, function in {
            "computes": lambda x: x + 1,
            "reads a variable": lambda x: x + number,
            "draws": lambda x: tf.random.uniform(()),
            "draws from a generator": lambda x: generator.uniform(()),
            "reads a file": lambda x: tf.io.read_file(tf.as_string(x)),
            "assigns": lambda x: number.assign_add(x),
            "runs Python": lambda x: tf.py_function(lambda y: y, [x], tf.int64),
            "prints": lambda x: (tf.print(x), x)[1],
        }.items()
    }
    assert {name for name, traces in left.items() if traces} == {"assigns", "runs Python", "prints"}


def test_a_captured_dataset_may_do_anything():
    augmented = tf.data.Dataset.range(40).map(lambda x: tf.cast(x, tf.float32) + tf.random.uniform(()))
    sharded = tf.data.Dataset.range(4).interleave(lambda number: augmented.shard(4, number))
    found = effects(extract(sharded).fn)
    assert found.other == ("a captured dataset",)
    assert not found.steady
    assert not found.unseen
    assert ops_that_change(extract(sharded).fn)


def test_readers_inside_an_interleave_read_files():
    made = Dataset.from_tensor_slices(["a"]).interleave(tf.data.TFRecordDataset)
    assert effects(extract(made).fn) == Effects(file_reads=("TFRecordDataset",))


def test_an_op_that_tensorflow_does_not_know_is_not_pure():
    assert is_stateful("AnOpOfSomebodyElse")
