from collections.abc import Callable
from typing import Any

import tensorflow as tf

from autopipe.functions.analysis.windows import batched_windows
from autopipe.functions.joined.gather import gather
from autopipe.pipeline.ir import FlatMap, Map, Node, Window
from autopipe.pipeline.positions import columns, range_of
from autopipe.pipeline.signature import signature
from autopipe.rules._base import Keeps, Rewrite, rule
from autopipe.rules._obligations import ArraysOnHost, WholeWindows

_MOST_PLACES = 2**20


@rule(keeps=Keeps.SEQUENCE)
def gather_windows(node: Node) -> Rewrite | None:
    """window(n) | flat_map(w -> w.batch(n))  ->  range | map(gather)

    A window over arrays in memory is given by the position it begins at, and is gathered from there in one step, not as
    a dataset of its own that is read element by element. Later stages can then shuffle positions and gather whole
    batches. The number of windows becomes known, and with it that of the steps in an epoch. It needs: a function that
    batches each window whole and does nothing else, windows that are all of one size, and arrays that are in the memory
    of the host, or fit there once more.
    """
    match node:
        case FlatMap(input=Window(size=size, shift=shift, stride=stride) as window, fn=fn):
            series, batched = columns(window.input), batched_windows(fn)
            if series is None or batched is None or any(each.size != size for each in batched):
                return None
            rows = signature(window.input).cardinality
            if size > max(rows, _MOST_PLACES):
                # A huge size may mean "everything"; listing the positions in such a window could take all memory.
                return None
            whole = window.drop_remainder or all(each.whole for each in batched)
            count = max(0, (rows - (size - 1) * stride - 1) // shift + 1)
            parts = [_from(series[each.component], size, shift, stride) for each in batched]
            starts = range_of(count)
            spec = _whole(fn.output_spec.element_spec, size)
            gathered = Map(input=starts, fn=gather(parts, starts.dataset.element_spec, spec), name=node.name)
            on_host = ArraysOnHost(window.input)
            return Rewrite(gathered, provided=(on_host,) if whole else (WholeWindows(window, rows), on_host))
    return None


def _from(column: Callable[[Any], Any], size: int, shift: int, stride: int) -> Callable[[Any], Any]:
    within = [place * stride for place in range(size)]
    return lambda number: column(number * shift + within)


def _whole(spec: Any, size: int) -> Any:
    return tf.nest.map_structure(lambda part: tf.TensorSpec([size, *part.shape[1:]], part.dtype), spec)
