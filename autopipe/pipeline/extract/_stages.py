"""Transformations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tensorflow as tf

from autopipe.pipeline import ir
from autopipe.pipeline.extract._reading import (
    ORDERS_IN_TURN,
    Reader,
    as_bool,
    function_from,
    function_of,
    inputs_of,
    is_read_twice,
    node_of,
    opaque,
    scalar,
)
from autopipe.pipeline.serialized import enumerate_start, fixed_choices, hidden_attribute

__all__ = ["STAGES"]

_OF_DATASETS = "its elements are datasets, and what those do is not known"


def _unary(kind: Callable[..., ir.Node], *arguments: str) -> Callable[[Any], ir.Node]:
    """Return the reader of a transformation that keeps its arguments under their own names."""

    def read(ds: Any) -> ir.Node:
        values = {argument: scalar(getattr(ds, f"_{argument}")) for argument in arguments}
        return kind(input=node_of(ds._input_dataset), name=ds._name, **values)

    return read


def _tensors(ds: Any) -> ir.Node:
    if _holds_datasets(ds):
        return opaque(ds, _OF_DATASETS)
    return ir.Tensors(dataset=ds, components=tuple(ds._tensors), name=ds._name)


def _tensor_slices(ds: Any) -> ir.Node:
    if _holds_datasets(ds):
        return opaque(ds, _OF_DATASETS)
    return ir.TensorSlices(dataset=ds, components=tuple(ds._tensors), name=ds._name)


def _holds_datasets(ds: Any) -> bool:
    return any(isinstance(spec, tf.data.DatasetSpec) for spec in tf.nest.flatten(ds.element_spec))


def _range(ds: Any) -> ir.Node:
    return ir.Range(dataset=ds, start=scalar(ds._start), stop=scalar(ds._stop), step=scalar(ds._step), name=ds._name)


def _map(ds: Any) -> ir.Map:
    return ir.Map(
        input=node_of(ds._input_dataset),
        fn=function_of(ds),
        synchronous=ds._force_synchronous,
        use_inter_op_parallelism=ds._use_inter_op_parallelism,
        preserve_cardinality=ds._preserve_cardinality,
        name=ds._name,
    )


def _dense_to_ragged(ds: Any) -> ir.Node:
    """Read the encoding map that ``ragged_batch`` puts before its batch; only the dataset has its type."""
    encoding = _map(ds._mapped_dataset)
    return replace(encoding, fn=replace(encoding.fn, name="to ragged", location=None, output_spec=ds.element_spec))


def _parallel_map(ds: Any) -> ir.Node:
    return ir.Map(
        input=node_of(ds._input_dataset),
        fn=function_of(ds),
        num_parallel_calls=scalar(ds._num_parallel_calls),
        deterministic=as_bool(ds._deterministic),
        use_unbounded_threadpool=bool(ds._use_unbounded_threadpool),
        use_inter_op_parallelism=ds._use_inter_op_parallelism,
        preserve_cardinality=ds._preserve_cardinality,
        name=ds._name,
    )


def _filter(ds: Any) -> ir.Node:
    return ir.Filter(input=node_of(ds._input_dataset), predicate=function_of(ds), name=ds._name)


def _flat_map(ds: Any) -> ir.Node:
    fn = function_of(ds)
    if any(op.type == "GeneratorDataset" for op in fn.concrete.graph.get_operations()):
        return ir.Generator(dataset=ds, fn=replace(fn, name="the generator", location=None), name=ds._name)
    return ir.FlatMap(input=node_of(ds._input_dataset), fn=fn, name=ds._name)


def _group_by_window(ds: Any) -> ir.Node:
    return ir.GroupByWindow(
        input=node_of(ds._input_dataset),
        key_func=function_from(ds._key_func, ds),
        reduce_func=function_from(ds._reduce_func, ds),
        window_size_func=function_from(ds._window_size_func, ds),
        name=ds._name,
    )


def _interleave(ds: Any) -> ir.Node:
    return ir.Interleave(
        input=node_of(ds._input_dataset),
        fn=function_of(ds),
        cycle_length=scalar(ds._cycle_length),
        block_length=scalar(ds._block_length),
        name=ds._name,
    )


def _parallel_interleave(ds: Any) -> ir.Node:
    source, fn = node_of(ds._input_dataset), function_of(ds)
    return ir.Interleave(
        input=source,
        fn=fn,
        cycle_length=scalar(ds._cycle_length),
        block_length=scalar(ds._block_length),
        num_parallel_calls=scalar(ds._num_parallel_calls),
        deterministic=as_bool(hidden_attribute(ds, source, "ParallelInterleaveDatasetV4", "deterministic", fn)),
        buffer_output_elements=scalar(ds._buffer_output_elements),
        prefetch_input_elements=scalar(ds._prefetch_input_elements),
        name=ds._name,
    )


def _legacy_interleave(ds: Any) -> ir.Node:
    return ir.LegacyInterleave(
        input=node_of(ds._input_dataset),
        fn=function_of(ds),
        cycle_length=scalar(ds._cycle_length),
        block_length=scalar(ds._block_length),
        deterministic=as_bool(ds._deterministic),
        buffer_output_elements=scalar(ds._buffer_output_elements),
        prefetch_input_elements=scalar(ds._prefetch_input_elements),
        name=ds._name,
    )


def _parallel_batch(ds: Any) -> ir.Node:
    return ir.Batch(
        input=node_of(ds._input_dataset),
        batch_size=scalar(ds._batch_size),
        drop_remainder=scalar(ds._drop_remainder),
        num_parallel_calls=scalar(ds._num_parallel_calls),
        deterministic=as_bool(ds._deterministic),
        name=ds._name,
    )


def _padded_batch(ds: Any) -> ir.Node:
    return ir.PaddedBatch(
        input=node_of(ds._input_dataset),
        batch_size=scalar(ds._batch_size),
        padded_shapes=tuple(tuple(shape.numpy().tolist()) for shape in tf.nest.flatten(ds._padded_shapes)),
        padding_values=tuple(_padding_value(value) for value in tf.nest.flatten(ds._padding_values)),
        drop_remainder=scalar(ds._drop_remainder),
        name=ds._name,
    )


def _padding_value(tensor: Any) -> Any:
    value = tensor.numpy()
    return value if isinstance(value, bytes) else value[()]


def _unbatch(ds: Any) -> ir.Node:
    """Read ``unbatch`` without the two steps TensorFlow puts before it, since its method adds them again."""
    return ir.Unbatch(input=node_of(_before_normalizing(ds)), name=ds._name)


def _before_normalizing(ds: Any) -> Any:
    normalized = ds._input_dataset._input_dataset
    return normalized._input_dataset


def _rebatch(ds: Any) -> ir.Node:
    if ds._batch_sizes.shape.rank:
        return opaque(ds, "its batch size changes from batch to batch")
    return ir.Rebatch(
        input=node_of(_before_normalizing(ds)),
        batch_size=scalar(ds._batch_sizes),
        drop_remainder=scalar(ds._drop_remainder),
        name=ds._name,
    )


def _ignore_errors(ds: Any) -> ir.Node:
    source = node_of(ds._input_dataset)
    log_warning = hidden_attribute(ds, source, "IgnoreErrorsDataset", "log_warning")
    return ir.IgnoreErrors(input=source, log_warning=log_warning, name=ds._name)


def _shuffle(ds: Any) -> ir.Node:
    seeds = (scalar(ds._seed), scalar(ds._seed2))
    reshuffles = ds._reshuffle_each_iteration is not False
    if seeds == (0, 0) and not reshuffles:
        drawn = opaque(ds, "it has drawn its one order already, which another one would not have")
        return replace(drawn, inside=node_of(ds._input_dataset))
    draws_anew = reshuffles and seeds != (0, 0)
    if draws_anew and is_read_twice(ds):
        return opaque(ds, ORDERS_IN_TURN)
    return ir.Shuffle(
        input=node_of(ds._input_dataset),
        buffer_size=scalar(ds._buffer_size),
        seeds=seeds,
        reshuffle_each_iteration=reshuffles,
        origin=ds if draws_anew else None,
        name=ds._name,
    )


def _cache(ds: Any) -> ir.Node:
    return ir.Cache(input=node_of(ds._input_dataset), filename=scalar(ds._filename), origin=ds, name=ds._name)


def _zip(ds: Any) -> ir.Node:
    start = enumerate_start(ds._datasets)
    if start is not None:
        return ir.Enumerate(input=node_of(ds._datasets[1]), start=start, name=ds._name)
    parts = ds._inputs()
    return ir.Zip(
        parts=tuple(node_of(part) for part in parts),
        structure=tf.nest.pack_sequence_as(ds._datasets, list(range(len(parts)))),
        name=ds._name,
    )


def _choose_from(ds: Any) -> ir.Node:
    return ir.ChooseFrom(
        choices=fixed_choices(ds._selector_input) or node_of(ds._selector_input),
        parts=tuple(map(node_of, ds._data_inputs)),
        stop_on_empty=bool(ds._stop_on_empty_dataset),
        element_spec=ds.element_spec,
    )


def _assert_cardinality(ds: Any) -> ir.Node:
    return ir.AssertCardinality(input=node_of(ds._input_dataset), count=scalar(ds._expected_cardinality))


def _random(ds: Any) -> ir.Node:
    if ds._rerandomize:
        return opaque(ds, "it draws other numbers for every iterator, from its own state")
    return ir.RandomNumbers(dataset=ds, seeded=(scalar(ds._seed), scalar(ds._seed2)) != (0, 0), name=ds._name)


def _concatenate(ds: Any) -> ir.Node:
    first, second = inputs_of(ds)
    return ir.Concatenate(first=node_of(first), second=node_of(second), name=ds._name)


def _repeat(ds: Any) -> ir.Node:
    count = scalar(ds._count)
    if not count:
        # TensorFlow fuses a shuffle with the repeat right after it, and the fused stage does not accept a count of 0.
        return opaque(ds, "a repeat(0) gives nothing; leave it out, with what is before it")
    return ir.Repeat(input=node_of(ds._input_dataset), name=ds._name, count=max(count, -1))


def _scan(ds: Any) -> ir.Node:
    source, state = node_of(ds._input_dataset), tuple(tf.nest.flatten(ds._initial_state))
    if not all(isinstance(part, tf.Tensor) for part in state):
        return opaque(ds, "what it carries from element to element is sparse or ragged, which autopipe does not read")
    fn = function_of(ds)
    return ir.Scan(
        input=source,
        fn=fn,
        initial_state=state,
        use_default_device=bool(hidden_attribute(ds, source, "ScanDataset", "use_default_device", fn)),
        name=ds._name,
    )


def _take_while(ds: Any) -> ir.Node:
    return ir.TakeWhile(input=node_of(ds._input_dataset), predicate=function_of(ds), name=ds._name)


def _options(ds: Any) -> ir.Node:
    return ir.Options(input=node_of(ds._input_dataset), options=ds.options(), name=ds._name)


STAGES: dict[str, Reader] = {
    "CacheDataset": _cache,
    "ParallelInterleaveDataset": _legacy_interleave,
    "_AssertCardinalityDataset": _assert_cardinality,
    "_BatchDataset": _unary(ir.Batch, "batch_size", "drop_remainder"),
    "_ConcatenateDataset": _concatenate,
    "_DenseToRaggedDataset": _dense_to_ragged,
    "_DirectedInterleaveDataset": _choose_from,
    "_FilterDataset": _filter,
    "_FlatMapDataset": _flat_map,
    "_GroupByWindowDataset": _group_by_window,
    "_IgnoreErrorsDataset": _ignore_errors,
    "_InterleaveDataset": _interleave,
    "_MapDataset": _map,
    "_OptionsDataset": _options,
    "_PaddedBatchDataset": _padded_batch,
    "_ParallelBatchDataset": _parallel_batch,
    "_ParallelInterleaveDataset": _parallel_interleave,
    "_ParallelMapDataset": _parallel_map,
    "_PrefetchDataset": _unary(ir.Prefetch, "buffer_size"),
    "_RandomDataset": _random,
    "_RangeDataset": _range,
    "_RebatchDataset": _rebatch,
    "_RepeatDataset": _repeat,
    "_ScanDataset": _scan,
    "_ShardDataset": _unary(ir.Shard, "num_shards", "index"),
    "_ShuffleDataset": _shuffle,
    "_SkipDataset": _unary(ir.Skip, "count"),
    "_TakeDataset": _unary(ir.Take, "count"),
    "_TakeWhileDataset": _take_while,
    "_TensorDataset": _tensors,
    "_TensorSliceDataset": _tensor_slices,
    "_UnbatchDataset": _unbatch,
    "_WindowDataset": _unary(ir.Window, "size", "shift", "stride", "drop_remainder"),
    "_ZipDataset": _zip,
}
