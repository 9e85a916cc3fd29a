"""What the function inside a ``map`` is, and surgery on it."""
