"""What two runs of a pipeline may differ in."""

import pytest
import tensorflow as tf

from autopipe.optimizer import Rewriting
from autopipe.pipeline.extract import extract
from autopipe.pipeline.repeatable import (
    draws_freely,
    draws_race,
    order_is_free,
    order_is_used,
    varies_by_epoch,
    who_frees_number,
)
from autopipe.verify import verify

TEN = tf.data.Dataset.range(10)
ASKED = {
    "draws freely": draws_freely,
    "draws race": draws_race,
    "number is free": who_frees_number,
    "order is free": order_is_free,
    "order is used": order_is_used,
    "varies by epoch": varies_by_epoch,
}


def noise(x):
    return tf.cast(x, tf.float32) + tf.random.uniform(())


def seeded_noise(x):
    return tf.cast(x, tf.float32) + tf.random.uniform((), seed=3)


def invert(x):
    return 10 // x


def check(x):
    return tf.debugging.check_numerics(x, "")


def lucky(x):
    return tf.random.uniform((), seed=3) > 0.5


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (TEN.map(lambda x: x + 1, num_parallel_calls=2), set()),
        (TEN.map(seeded_noise), set()),
        (TEN.map(seeded_noise, num_parallel_calls=2), {"draws race"}),
        (TEN.map(seeded_noise, num_parallel_calls=2).filter(lambda x: x > 3), {"draws race", "number is free"}),
        (TEN.map(noise), {"draws freely", "varies by epoch"}),
        (TEN.filter(lucky), set()),
        (TEN.map(noise).filter(lambda x: x > 3), {"draws freely", "varies by epoch", "number is free"}),
        (TEN.map(noise).ignore_errors(), {"draws freely", "varies by epoch"}),
        (TEN.map(invert).map(noise).ignore_errors(), {"draws freely", "varies by epoch"}),
        (TEN.map(noise).map(check).ignore_errors(), {"draws freely", "varies by epoch", "number is free"}),
        (TEN.map(seeded_noise, 2).map(check).ignore_errors(), {"draws race", "number is free"}),
        (TEN.shuffle(5).map(invert).ignore_errors(), {"order is free", "varies by epoch"}),
        (
            TEN.map(invert).shuffle(5).batch(2).map(abs).ignore_errors(),
            {"order is free", "varies by epoch", "order is used", "number is free"},
        ),
        (TEN.shuffle(5).take(9).ignore_errors(), {"order is free", "varies by epoch", "order is used"}),
        (TEN.shuffle(5), {"order is free", "varies by epoch"}),
        (TEN.shuffle(tf.data.UNKNOWN_CARDINALITY), {"order is free", "varies by epoch"}),
        (TEN.shuffle(5, seed=1), {"varies by epoch"}),
        (TEN.shuffle(5).take(3), {"order is free", "varies by epoch", "order is used"}),
        (TEN.shuffle(5).cache(), {"order is free"}),
        (TEN.map(noise).cache().shuffle(5, seed=1), {"draws freely", "varies by epoch"}),
        (TEN.take(3), {"order is used"}),
        (TEN.map(lambda x: x, num_parallel_calls=2, deterministic=False), {"order is free"}),
    ],
)
def test_what_stages_tell_about_a_second_run(dataset, expected):
    assert {name for name, asked in ASKED.items() if asked(extract(dataset))} == expected


def test_draws_of_one_seed_in_calls_at_a_time_are_not_compared_value_by_value():
    tree = extract(TEN.take(2).map(seeded_noise, num_parallel_calls=2))
    assert "keeping training" in verify(Rewriting(tree, tree, (), ()))
