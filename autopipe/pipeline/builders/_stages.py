"""Sources, and transformations of one dataset."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from autopipe.functions.function import Function
from autopipe.functions.joined.memoized import memoized, new_table
from autopipe.pipeline import ir
from autopipe.pipeline.builders._base import arguments_of, build_stage, deterministic, from_variant
from autopipe.pipeline.extract import element_shapes, element_types

__all__: list[str] = []


@build_stage.register
def _source(node: ir.Source) -> Any:
    return node.dataset


@build_stage.register
def _map(node: ir.Map, source: Any) -> Any:
    common = _calling(node, node.fn, source) | {
        "use_inter_op_parallelism": node.use_inter_op_parallelism,
        "preserve_cardinality": node.preserve_cardinality,
    }
    return from_variant(_mapping(node, common, force_synchronous=node.synchronous), node.fn.output_spec)


@build_stage.register
def _memoized_map(node: ir.MemoizedMap, source: Any) -> Any:
    table = new_table() if node.table is None else node.table
    flat = tuple(map(tf.TensorSpec, element_shapes(source), element_types(source)))
    behind = node.ahead + 1 + len(node.fn.element_inputs)
    fn = memoized(node.fn, flat[: node.ahead], flat[behind:])
    common = _calling(node, fn, source, table) | {"preserve_cardinality": True}
    return from_variant(_mapping(node, common), fn.output_spec)


@build_stage.register
def _asking(node: ir.Filter | ir.TakeWhile, source: Any) -> Any:
    asking = tf.raw_ops.FilterDataset if isinstance(node, ir.Filter) else tf.raw_ops.TakeWhileDataset
    variant = asking(
        input_dataset=tf.data.experimental.to_variant(source),
        other_arguments=node.predicate.concrete.captured_inputs,
        predicate=node.predicate.concrete,
        **arguments_of(node, element_types(source), element_shapes(source)),
    )
    return from_variant(variant, source.element_spec)


@build_stage.register
def _flat_map(node: ir.FlatMap, source: Any) -> Any:
    variant = tf.raw_ops.FlatMapDataset(**_calling(node, node.fn, source))
    return from_variant(variant, node.fn.output_spec.element_spec)


@build_stage.register
def _group_by_window(node: ir.GroupByWindow, source: Any) -> Any:
    variant = tf.raw_ops.GroupByWindowDataset(
        input_dataset=tf.data.experimental.to_variant(source),
        key_func_other_arguments=node.key_func.concrete.captured_inputs,
        reduce_func_other_arguments=node.reduce_func.concrete.captured_inputs,
        window_size_func_other_arguments=node.window_size_func.concrete.captured_inputs,
        key_func=node.key_func.concrete,
        reduce_func=node.reduce_func.concrete,
        window_size_func=node.window_size_func.concrete,
        **arguments_of(node, node.reduce_func.element_types, node.reduce_func.element_shapes),
    )
    return from_variant(variant, node.reduce_func.output_spec.element_spec)


@build_stage.register
def _interleave(node: ir.Interleave, source: Any) -> Any:
    common = _calling(node, node.fn, source) | {
        "cycle_length": tf.constant(node.cycle_length, tf.int64),
        "block_length": tf.constant(node.block_length, tf.int64),
    }
    if node.num_parallel_calls is None:
        variant = tf.raw_ops.InterleaveDataset(**common)
    else:
        # TensorFlow refuses more calls than the cycle has datasets to read.
        most = node.num_parallel_calls if node.cycle_length == ir.AUTOTUNE else node.cycle_length
        variant = tf.raw_ops.ParallelInterleaveDatasetV4(
            num_parallel_calls=tf.constant(min(node.num_parallel_calls, most), tf.int64),
            buffer_output_elements=tf.constant(node.buffer_output_elements, tf.int64),
            prefetch_input_elements=tf.constant(node.prefetch_input_elements, tf.int64),
            deterministic=deterministic(node.deterministic),
            **common,
        )
    return from_variant(variant, node.fn.output_spec.element_spec)


@build_stage.register
def _legacy_interleave(node: ir.LegacyInterleave, source: Any) -> Any:
    variant = tf.raw_ops.LegacyParallelInterleaveDatasetV2(
        cycle_length=tf.constant(node.cycle_length, tf.int64),
        block_length=tf.constant(node.block_length, tf.int64),
        deterministic=deterministic(node.deterministic),
        buffer_output_elements=tf.constant(node.buffer_output_elements, tf.int64),
        prefetch_input_elements=tf.constant(node.prefetch_input_elements, tf.int64),
        **_calling(node, node.fn, source),
    )
    return from_variant(variant, node.fn.output_spec.element_spec)


@build_stage.register
def _scan(node: ir.Scan, source: Any) -> Any:
    _, output_spec = node.fn.output_spec
    variant = tf.raw_ops.ScanDataset(
        initial_state=list(node.initial_state),
        preserve_cardinality=True,
        use_default_device=node.use_default_device,
        **_calling(node, node.fn, source),
    )
    return from_variant(variant, output_spec)


@build_stage.register
def _shuffle(node: ir.Shuffle, source: Any) -> Any:
    seed, seed2 = node.seeds
    variant = tf.raw_ops.ShuffleDatasetV3(
        input_dataset=tf.data.experimental.to_variant(source),
        buffer_size=tf.constant(node.buffer_size, tf.int64),
        seed=tf.constant(seed, tf.int64),
        seed2=tf.constant(seed2, tf.int64),
        seed_generator=tf.raw_ops.DummySeedGenerator() if node.seed_generator is None else node.seed_generator[0],
        reshuffle_each_iteration=node.reshuffle_each_iteration,
        **arguments_of(node, element_types(source), element_shapes(source)),
    )
    return from_variant(variant, source.element_spec)


@build_stage.register
def _batch(node: ir.Batch, source: Any) -> Any:
    parallel = {}
    if node.num_parallel_calls is not None:
        parallel = {"num_parallel_calls": node.num_parallel_calls, "deterministic": node.deterministic}
    return source.batch(node.batch_size, drop_remainder=node.drop_remainder, name=node.name, **parallel)


@build_stage.register
def _padded_batch(node: ir.PaddedBatch, source: Any) -> Any:
    spec = source.element_spec
    dtypes = [component.dtype for component in tf.nest.flatten(spec)]
    values = [tf.constant(value, dtype) for value, dtype in zip(node.padding_values, dtypes, strict=True)]
    shapes = [tf.constant(shape, tf.int64, shape=[len(shape)]) for shape in node.padded_shapes]
    return source.padded_batch(
        node.batch_size,
        padded_shapes=tf.nest.pack_sequence_as(spec, shapes),
        padding_values=tf.nest.pack_sequence_as(spec, values),
        drop_remainder=node.drop_remainder,
        name=node.name,
    )


@build_stage.register
def _unbatch(node: ir.Unbatch, source: Any) -> Any:
    return source.unbatch(name=node.name)


@build_stage.register
def _rebatch(node: ir.Rebatch, source: Any) -> Any:
    return source.rebatch(node.batch_size, drop_remainder=node.drop_remainder, name=node.name)


@build_stage.register
def _window(node: ir.Window, source: Any) -> Any:
    return source.window(node.size, node.shift, node.stride, node.drop_remainder, name=node.name)


@build_stage.register
def _ignore_errors(node: ir.IgnoreErrors, source: Any) -> Any:
    return source.ignore_errors(log_warning=node.log_warning, name=node.name)


@build_stage.register
def _repeat(node: ir.Repeat, source: Any) -> Any:
    return source.repeat(node.count, name=node.name)


@build_stage.register
def _cache(node: ir.Cache, source: Any) -> Any:
    if node.on_disk and not node.filename:
        return source
    return source.cache(node.filename, name=node.name)


@build_stage.register
def _prefetch(node: ir.Prefetch, source: Any) -> Any:
    return source.prefetch(node.buffer_size, name=node.name)


@build_stage.register
def _take(node: ir.Take, source: Any) -> Any:
    return source.take(node.count, name=node.name)


@build_stage.register
def _skip(node: ir.Skip, source: Any) -> Any:
    return source.skip(node.count, name=node.name)


@build_stage.register
def _shard(node: ir.Shard, source: Any) -> Any:
    return source.shard(node.num_shards, node.index, name=node.name)


@build_stage.register
def _assert_cardinality(node: ir.AssertCardinality, source: Any) -> Any:
    return source.apply(tf.data.experimental.assert_cardinality(node.count))


@build_stage.register
def _enumerate(node: ir.Enumerate, source: Any) -> Any:
    return source.enumerate(node.start, name=node.name)


@build_stage.register
def _options(node: ir.Options, source: Any) -> Any:
    return source.with_options(node.options, name=node.name)


@build_stage.register
def _thread_pool(node: ir.ThreadPool, source: Any) -> Any:
    if not node.size and not node.max_intra_op_parallelism:
        return source
    options = tf.data.Options()
    if node.size:
        options.threading.private_threadpool_size = node.size
    if node.max_intra_op_parallelism:
        options.threading.max_intra_op_parallelism = node.max_intra_op_parallelism
    return source.with_options(options)


def _mapping(node: ir.Mapping, common: dict[str, Any], **serial: Any) -> Any:
    """Make a map that runs calls in parallel, or one after the other; ``serial`` are arguments of the latter only."""
    if node.num_parallel_calls is None:
        return tf.raw_ops.MapDataset(**serial, **common)
    return tf.raw_ops.ParallelMapDatasetV2(
        num_parallel_calls=tf.constant(node.num_parallel_calls, tf.int64),
        deterministic=deterministic(node.deterministic),
        use_unbounded_threadpool=node.use_unbounded_threadpool,
        **common,
    )


def _calling(node: ir.Node, fn: Function, source: Any, *also: Any) -> dict[str, Any]:
    """Return the arguments of a stage that calls a function with each element, and with other tensors after it."""
    return arguments_of(node, fn.element_types, fn.element_shapes) | {
        "input_dataset": tf.data.experimental.to_variant(source),
        "other_arguments": [*also, *fn.concrete.captured_inputs],
        "f": fn.concrete,
    }
