"""Elements that cannot be made: measurements skip them, and report them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from autopipe.sentences import one_sentence

__all__ = ["Failures", "skipping_failures"]

_MOST_IN_A_ROW = 100


@dataclass
class Failures:
    """The errors of elements.

    Attributes:
        count: how many elements raised.
        first: the error of the first of them, as a sentence.
    """

    count: int = 0
    first: str = ""

    def note(self, error: BaseException) -> None:
        """Count one more."""
        self.first = self.first or one_sentence(error)
        self.count += 1


def skipping_failures(iterator: Iterator[Any], failures: Failures) -> Iterator[Any]:
    """Yield the elements that can be made, and note the others; stop if many of those come in a row.

    >>> import tensorflow as tf
    >>> broken = Failures()
    >>> checked = tf.data.Dataset.range(4).map(lambda x: tf.debugging.check_numerics(6 / x, "no number"))
    >>> [float(element) for element in skipping_failures(iter(checked), broken)]
    [6.0, 3.0, 2.0]
    >>> broken
    Failures(count=1, first='no number : Tensor had Inf values.')
    """
    in_a_row = 0
    while True:
        try:
            element = next(iterator)
        except StopIteration:
            return
        except tf.errors.OpError as error:
            failures.note(error)
            in_a_row += 1
            if in_a_row == _MOST_IN_A_ROW:
                return
            continue
        in_a_row = 0
        yield element
