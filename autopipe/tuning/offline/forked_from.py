"""Imported by the process that trials are forked from: TensorFlow takes seconds to import, but only once."""

from autopipe.quiet import load_tensorflow

__all__: list[str] = []

load_tensorflow()
