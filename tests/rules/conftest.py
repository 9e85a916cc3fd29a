"""What several tests of rules need."""

import pytest


@pytest.fixture(autouse=True)
def _as_fast(as_fast):
    """Rules are tested here, and not whether all of them together pay."""
