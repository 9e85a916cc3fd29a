"""Map functions as people write them: Keras layers, ``tf.image``, text, tables of numbers, sound and records."""

from real_functions.data import COUNT
from real_functions.images import IMAGE_FUNCTIONS
from real_functions.layers import LAYER_FUNCTIONS
from real_functions.records import RECORD_FUNCTIONS

__all__ = ["COUNT", "FUNCTIONS"]

FUNCTIONS = {**LAYER_FUNCTIONS, **IMAGE_FUNCTIONS, **RECORD_FUNCTIONS}
