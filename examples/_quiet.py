"""To be imported before TensorFlow: loads it without the notices it prints."""

from autopipe.quiet import load_tensorflow

load_tensorflow()
