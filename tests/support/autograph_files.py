"""AutoGraph parses the whole file of a lambda for each lambda of it, and files of tests have dozens."""

from copy import deepcopy
from functools import cache
from types import FunctionType


def parse_each_file_once() -> None:
    """Keep what AutoGraph parses to find lambdas; of the one it finds it gets a copy, as it changes that."""
    from tensorflow.python.autograph.pyct import parser

    parse_file = cache(lambda source, **settings: parser.parse(source, **settings))
    without_context = parser._without_context
    instead = {"parse": parse_file, "_without_context": lambda node, *where: without_context(deepcopy(node), *where)}
    parser._parse_lambda = FunctionType(parser._parse_lambda.__code__, vars(parser) | instead)
