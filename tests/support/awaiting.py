"""Waiting for what happens on another thread."""

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until something holds; fail if it does not in so long."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"it did not come to pass within {seconds} seconds"
        time.sleep(0.01)
