"""What TensorFlow does to a pipeline by itself, unless an option forbids it."""

from __future__ import annotations

from typing import Any, Literal

import tensorflow as tf

from autopipe.pipeline import ir, trees

__all__ = ["as_built", "does_by_itself", "has_autotune"]

_Optimization = Literal["inject_prefetch", "map_parallelization", "noop_elimination", "shuffle_and_repeat_fusion"]
_WITHOUT_AUTOTUNE = frozenset({"noop_elimination", "shuffle_and_repeat_fusion"})


def does_by_itself(pipeline: ir.Node, optimization: _Optimization) -> bool:
    """Return whether TensorFlow does an optimization: no option of the pipeline forbids it, or all optimizations.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> numbers, options = tf.data.Dataset.range(3), tf.data.Options()
    >>> options.experimental_optimization.inject_prefetch = False
    >>> [does_by_itself(extract(each), "inject_prefetch") for each in (numbers, numbers.with_options(options))]
    [True, False]
    """
    for options in trees.options_of(pipeline):
        rewrites = options.experimental_optimization
        if False in (rewrites.apply_default_optimizations, getattr(rewrites, optimization)):
            return False
        if options.autotune.enabled is False and optimization not in _WITHOUT_AUTOTUNE:
            return False
    return True


def has_autotune(pipeline: ir.Node) -> bool:
    """Return whether TensorFlow autotunes a pipeline, and so counts what each stage does: the last option decides.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> numbers, options = tf.data.Dataset.range(3), tf.data.Options()
    >>> options.autotune.enabled = False
    >>> [has_autotune(extract(each)) for each in (numbers, numbers.with_options(options))]
    [True, False]
    """
    chosen = (options.autotune.enabled for options in trees.options_of(pipeline))
    return next((each for each in chosen if each is not None), True)


def as_built(dataset: Any) -> Any:
    """Return a dataset that TensorFlow neither rewrites nor tunes; for a small one, that takes longer than running it.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> small = extract(as_built(tf.data.Dataset.range(3)))
    >>> does_by_itself(small, "noop_elimination"), has_autotune(small)
    (False, False)
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    return dataset.with_options(options)
