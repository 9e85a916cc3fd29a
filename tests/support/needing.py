"""Marks of tests for what the oldest Keras that autopipe works with does not have, or writes in other ops."""

import keras
import pytest

__all__ = ["needs_keras"]


def needs_keras(version):
    """Skip a test where Keras is older than that."""
    have, needed = (tuple(map(int, each.split(".")[:2])) for each in (keras.__version__, version))
    return pytest.mark.skipif(have < needed, reason=f"Keras {version} or later")
