"""Elements differ by a bit, or, where rounding may differ, by more than that."""

import numpy as np
import pytest
import tensorflow as tf

from autopipe.planning.measuring.differences import difference

ONE = np.float32(1.0)
WAVE = np.sin(np.arange(100, dtype=np.float32) * np.pi)


@pytest.mark.parametrize(
    ("left", "right", "exact", "but_for_rounding"),
    [
        (ONE, ONE, None, None),
        (ONE, np.nextafter(ONE, 2 * ONE), "values differ", None),
        (ONE, ONE * 1.001, "values differ", "values differ"),
        (np.float32("nan"), np.float32("nan"), None, None),
        (np.float32("inf"), ONE, "values differ", "values differ"),
        (np.float32(-0.0), np.float32(0.0), "values differ", None),
        (np.float64(-0.0), np.float64(-0.0), None, None),
        ([np.nan, 1.0], [np.nan, 1.0], None, None),
        ([np.nan, 1.0], [1.0, np.nan], "values differ", "values differ"),
        ([np.nan, 0.0], [-np.nan, 0.0], None, None),
        ([np.nan, 0.0], [np.nan, -0.0], "values differ", None),
        ([complex(1, -0.0)], [complex(1, 0.0)], "values differ", None),
        (complex(np.nan, 1), complex(np.nan, 1), None, None),
        (complex(np.nan, 1), complex(-np.nan, 1), None, None),
        ([complex(1, 2), complex(np.nan, 1)], [complex(1, 3), complex(np.nan, 1)], "values differ", "values differ"),
        (1, 2, "values differ", "values differ"),
        (b"a", b"b", "values differ", "values differ"),
        (WAVE + 1, WAVE + 1 + 3e-6, "values differ", None),
        (WAVE, WAVE + 1e-3, "values differ", "values differ"),
        ([1, 2], [1, 2, 3], "shape (2,) became (3,)", "shape (2,) became (3,)"),
    ],
)
def test_a_difference_is_more_than_rounding_where_that_may_differ(left, right, exact, but_for_rounding):
    one, other = {"x": tf.constant(left)}, {"x": tf.constant(right)}
    assert difference(one, other, exact=True) == exact
    assert difference(one, other, exact=False) == but_for_rounding


def test_numbers_of_which_only_one_part_is_no_number_differ_by_the_other():
    one, other = (tf.constant(complex(np.nan, part)) for part in (1, 2))
    assert difference(one, other, exact=True) == "values differ"


def test_ragged_elements_differ_in_their_rows_too():
    one, other = tf.ragged.constant([[1], [2, 3]]), tf.ragged.constant([[1, 2], [3]])
    assert difference(one, one, exact=True) is None
    assert difference(one, other, exact=True) == "values differ"


@pytest.mark.parametrize("kind", [tf.bfloat16, tf.dtypes.experimental.float8_e5m2])
def test_one_number_of_a_type_that_numpy_has_not_is_compared_too(kind):
    one, other = (tf.cast(value, kind) for value in (1.0, 2.0))
    assert difference(one, one, exact=False) is None
    assert difference(one, other, exact=True) == "values differ"


@pytest.mark.parametrize("kind", [tf.bfloat16, tf.float16, tf.dtypes.experimental.float8_e5m2])
def test_minus_zero_of_half_a_number_or_less_is_another_value_than_zero(kind):
    one, other = (tf.cast(tf.constant([value, 1.0]), kind) for value in (0.0, -0.0))
    assert difference(one, one, exact=True) is None
    assert difference(one, other, exact=True) == "values differ"
    assert difference(one, other, exact=False) is None
