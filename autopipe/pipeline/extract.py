"""Dataset -> tree, by the private attributes of ``tf.data`` classes.

``tests/pipeline/test_tensorflow_contract.py`` states what is relied on, so that a TensorFlow release which changes
it is named by a failing test. A class that is not known here, or that lost an attribute, becomes an opaque node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from autopipe.errors import DatasetError
from autopipe.functions.function import Function, describe_callable
from autopipe.pipeline import ir
from autopipe.pipeline.lines import with_line
from autopipe.pipeline.serialized import HiddenArgumentError, enumerate_start, hidden_attribute

__all__ = ["element_shapes", "element_types", "extract", "function_of", "op_determinism_enabled"]


# The datasets met while one pipeline is read, each with its node; it holds them so that no other takes their place.
_SEEN: ContextVar[dict[int, tuple[Any, ir.Node]]] = ContextVar("_SEEN")
# Which of them it reads at two places.
_READ_TWICE: ContextVar[frozenset[int]] = ContextVar("_READ_TWICE")
_OF_DATASETS = "its elements are datasets, and what those do is not known"


def extract(dataset: Any) -> ir.Node:
    """Read a dataset as a tree of nodes.

    Args:
        dataset: a ``tf.data.Dataset``.

    Returns:
        The node of its last transformation. What is not known becomes an :class:`~autopipe.pipeline.ir.Opaque`
        source; nothing upstream of it is read.

    Raises:
        DatasetError: if ``dataset`` is not a ``tf.data.Dataset``, or was made inside a ``tf.function``.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.text import one_line
    >>> one_line(extract(tf.data.Dataset.range(9).shuffle(3).batch(2)))
    'range(0, 9) | shuffle(3) | batch(2)'
    """
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset):
        raise DatasetError(
            "autopipe reads a tf.data.Dataset, "
            f"but received {type(dataset).__name__}. "
            "Make one with tf.data.Dataset.from_tensor_slices, keras.utils.image_dataset_from_directory, "
            "or tf.data.Dataset.from_generator."
        )
    if tf.is_symbolic_tensor(dataset._variant_tensor):
        raise DatasetError(
            "autopipe reads a dataset that was made eagerly, but received one made inside a tf.function. "
            "Call autopipe.optimize() where the training script calls fit()."
        )
    seen, twice = _SEEN.set({}), _READ_TWICE.set(_read_twice(dataset))
    try:
        return _extract(dataset)
    finally:
        _SEEN.reset(seen)
        _READ_TWICE.reset(twice)


def _extract(dataset: Any) -> ir.Node:
    """Read a dataset; one that the pipeline uses twice is one node, since it has one seed generator."""
    seen = _SEEN.get()
    if id(dataset) not in seen:
        seen[id(dataset)] = dataset, with_line(_read(dataset), dataset)
    return seen[id(dataset)][1]


def _read_twice(dataset: Any) -> frozenset[int]:
    """Return the ids of the datasets of a pipeline that several others read, and of all upstream of those."""
    readers: Counter[int] = Counter()
    waiting, met = [dataset], {id(dataset): dataset}
    while waiting:
        for source in waiting.pop()._inputs():
            readers[id(source)] += 1
            if id(source) not in met:
                met[id(source)] = source
                waiting.append(source)
    shared = (met[number] for number, count in readers.items() if count > 1)
    return frozenset(id(each) for dataset in shared for each in _upstream(dataset))


def _read(dataset: Any) -> ir.Node:
    own_tree = getattr(dataset, "_autopipe_tree", None)
    if isinstance(own_tree, ir.Node):
        return own_tree
    reader = _READERS.get(type(dataset).__name__)
    if reader is None:
        return _opaque(dataset, _UNREAD.get(type(dataset).__name__, "autopipe does not know this transformation"))
    try:
        return reader(dataset)
    except AttributeError as missing:
        return _opaque(dataset, f"this TensorFlow release keeps its arguments elsewhere ({missing})")
    except HiddenArgumentError as hidden:
        return _opaque(dataset, str(hidden))


def _opaque(dataset: Any, reason: str) -> ir.Opaque:
    label = type(dataset).__name__.strip("_")
    hidden = _upstream(dataset)
    functions = tuple(_function(wrapper, each) for each in hidden for wrapper in each._functions())
    classes = tuple(type(each).__name__ for each in hidden)
    return ir.Opaque(dataset=dataset, label=label, reason=reason, functions=functions, classes=classes)


def _upstream(dataset: Any) -> list[Any]:
    """Return a dataset and all that it reads from, each once, itself first."""
    found = {id(dataset): dataset}
    waiting = [dataset]
    while waiting:
        new = {id(source): source for source in waiting.pop()._inputs() if id(source) not in found}
        found |= new
        waiting.extend(new.values())
    return list(found.values())


def element_types(dataset: Any) -> list[Any]:
    """Return the flat dtypes of one element as TensorFlow's ops take them."""
    return list(dataset._flat_types)


def element_shapes(dataset: Any) -> list[Any]:
    """Return the flat shapes of one element as TensorFlow's ops take them."""
    return list(dataset._flat_shapes)


def op_determinism_enabled() -> bool:
    """Return whether ``tf.config.experimental.enable_op_determinism()`` was called; it has no public reader."""
    from tensorflow.python.framework import config

    return bool(config.is_op_determinism_enabled())


def function_of(dataset: Any) -> Function:
    """Read the function of a ``map``, ``filter``, ``flat_map`` or ``interleave``, its captures live."""
    (wrapper,) = dataset._functions()
    return _function(wrapper, dataset)


def _function(wrapper: Any, dataset: Any) -> Function:
    name, location = describe_callable(wrapper._func)
    return Function(
        concrete=wrapper.function,
        input_spec=wrapper._input_structure,
        output_spec=wrapper.output_structure,
        element_types=tuple(element_types(dataset)),
        element_shapes=tuple(element_shapes(dataset)),
        name=name,
        location=location,
        keeps_alive=(wrapper,),
    )


def _scalar(tensor: Any) -> Any:
    """Return the Python value of an argument, whether it was kept as a tensor or as given."""
    value = tensor.numpy() if hasattr(tensor, "numpy") else tensor
    if isinstance(value, bytes):
        return value.decode()
    return value.item() if hasattr(value, "item") else value


def _deterministic(text: str) -> bool | None:
    return {"true": True, "false": False, "default": None}[text]


def _unary(kind: Callable[..., ir.Node], *arguments: str) -> Callable[[Any], ir.Node]:
    """Return the reader of a transformation that keeps its arguments under their own names."""

    def read(ds: Any) -> ir.Node:
        values = {argument: _scalar(getattr(ds, f"_{argument}")) for argument in arguments}
        return kind(input=_extract(ds._input_dataset), name=ds._name, **values)

    return read


def _tensors(ds: Any) -> ir.Node:
    if _holds_datasets(ds):
        return _opaque(ds, _OF_DATASETS)
    return ir.Tensors(dataset=ds, components=tuple(ds._tensors), name=ds._name)


def _tensor_slices(ds: Any) -> ir.Node:
    if _holds_datasets(ds):
        return _opaque(ds, _OF_DATASETS)
    return ir.TensorSlices(dataset=ds, components=tuple(ds._tensors), name=ds._name)


def _holds_datasets(ds: Any) -> bool:
    import tensorflow as tf

    return any(isinstance(spec, tf.data.DatasetSpec) for spec in tf.nest.flatten(ds.element_spec))


def _range(ds: Any) -> ir.Node:
    return ir.Range(dataset=ds, start=_scalar(ds._start), stop=_scalar(ds._stop), step=_scalar(ds._step), name=ds._name)


def _map(ds: Any) -> ir.Map:
    return ir.Map(
        input=_extract(ds._input_dataset),
        fn=function_of(ds),
        synchronous=ds._force_synchronous,
        use_inter_op_parallelism=ds._use_inter_op_parallelism,
        preserve_cardinality=ds._preserve_cardinality,
        name=ds._name,
    )


def _dense_to_ragged(ds: Any) -> ir.Node:
    """Read what ``ragged_batch`` puts before its batch: an encoding map, whose type only the dataset tells."""
    encoding = _map(ds._mapped_dataset)
    return replace(encoding, fn=replace(encoding.fn, name="to ragged", location=None, output_spec=ds.element_spec))


def _parallel_map(ds: Any) -> ir.Node:
    return ir.Map(
        input=_extract(ds._input_dataset),
        fn=function_of(ds),
        num_parallel_calls=_scalar(ds._num_parallel_calls),
        deterministic=_deterministic(ds._deterministic),
        use_unbounded_threadpool=bool(ds._use_unbounded_threadpool),
        use_inter_op_parallelism=ds._use_inter_op_parallelism,
        preserve_cardinality=ds._preserve_cardinality,
        name=ds._name,
    )


def _filter(ds: Any) -> ir.Node:
    return ir.Filter(input=_extract(ds._input_dataset), predicate=function_of(ds), name=ds._name)


def _flat_map(ds: Any) -> ir.Node:
    fn = function_of(ds)
    if any(op.type == "GeneratorDataset" for op in fn.concrete.graph.get_operations()):
        return ir.Generator(dataset=ds, fn=replace(fn, name="the generator", location=None), name=ds._name)
    return ir.FlatMap(input=_extract(ds._input_dataset), fn=fn, name=ds._name)


def _group_by_window(ds: Any) -> ir.Node:
    return ir.GroupByWindow(
        input=_extract(ds._input_dataset),
        key_func=_function(ds._key_func, ds),
        reduce_func=_function(ds._reduce_func, ds),
        window_size_func=_function(ds._window_size_func, ds),
        name=ds._name,
    )


def _interleave(ds: Any) -> ir.Node:
    return ir.Interleave(
        input=_extract(ds._input_dataset),
        fn=function_of(ds),
        cycle_length=_scalar(ds._cycle_length),
        block_length=_scalar(ds._block_length),
        name=ds._name,
    )


def _parallel_interleave(ds: Any) -> ir.Node:
    source = _extract(ds._input_dataset)
    return ir.Interleave(
        input=source,
        fn=function_of(ds),
        cycle_length=_scalar(ds._cycle_length),
        block_length=_scalar(ds._block_length),
        num_parallel_calls=_scalar(ds._num_parallel_calls),
        deterministic=_deterministic(hidden_attribute(ds, source, "ParallelInterleaveDatasetV4", "deterministic")),
        buffer_output_elements=_scalar(ds._buffer_output_elements),
        prefetch_input_elements=_scalar(ds._prefetch_input_elements),
        name=ds._name,
    )


def _legacy_interleave(ds: Any) -> ir.Node:
    return ir.LegacyInterleave(
        input=_extract(ds._input_dataset),
        fn=function_of(ds),
        cycle_length=_scalar(ds._cycle_length),
        block_length=_scalar(ds._block_length),
        deterministic=_deterministic(ds._deterministic),
        buffer_output_elements=_scalar(ds._buffer_output_elements),
        prefetch_input_elements=_scalar(ds._prefetch_input_elements),
        name=ds._name,
    )


def _parallel_batch(ds: Any) -> ir.Node:
    return ir.Batch(
        input=_extract(ds._input_dataset),
        batch_size=_scalar(ds._batch_size),
        drop_remainder=_scalar(ds._drop_remainder),
        num_parallel_calls=_scalar(ds._num_parallel_calls),
        deterministic=_deterministic(ds._deterministic),
        name=ds._name,
    )


def _padded_batch(ds: Any) -> ir.Node:
    import tensorflow as tf

    return ir.PaddedBatch(
        input=_extract(ds._input_dataset),
        batch_size=_scalar(ds._batch_size),
        padded_shapes=tuple(tuple(shape.numpy().tolist()) for shape in tf.nest.flatten(ds._padded_shapes)),
        padding_values=tuple(_padding_value(value) for value in tf.nest.flatten(ds._padding_values)),
        drop_remainder=_scalar(ds._drop_remainder),
        name=ds._name,
    )


def _padding_value(tensor: Any) -> Any:
    value = tensor.numpy()
    return value if isinstance(value, bytes) else value[()]


def _unbatch(ds: Any) -> ir.Node:
    """Read ``unbatch`` without the two steps TensorFlow puts before it, since its own method puts them again."""
    return ir.Unbatch(input=_extract(_before_normalizing(ds)), name=ds._name)


def _before_normalizing(ds: Any) -> Any:
    normalized = ds._input_dataset._input_dataset
    return normalized._input_dataset


def _rebatch(ds: Any) -> ir.Node:
    if ds._batch_sizes.shape.rank:
        return _opaque(ds, "its batch size changes from batch to batch")
    return ir.Rebatch(
        input=_extract(_before_normalizing(ds)),
        batch_size=_scalar(ds._batch_sizes),
        drop_remainder=_scalar(ds._drop_remainder),
        name=ds._name,
    )


def _ignore_errors(ds: Any) -> ir.Node:
    source = _extract(ds._input_dataset)
    log_warning = hidden_attribute(ds, source, "IgnoreErrorsDataset", "log_warning")
    return ir.IgnoreErrors(input=source, log_warning=log_warning, name=ds._name)


def _shuffle(ds: Any) -> ir.Node:
    seeds = (_scalar(ds._seed), _scalar(ds._seed2))
    reshuffles = ds._reshuffle_each_iteration is not False
    if seeds == (0, 0) and not reshuffles:
        return _opaque(ds, "it has drawn its one order already, which another one would not have")
    draws_anew = reshuffles and seeds != (0, 0)
    if draws_anew and id(ds) in _READ_TWICE.get():
        return _opaque(ds, "the orders of two branches are drawn from its seed in turn")
    return ir.Shuffle(
        input=_extract(ds._input_dataset),
        buffer_size=_scalar(ds._buffer_size),
        seeds=seeds,
        reshuffle_each_iteration=reshuffles,
        origin=ds if draws_anew else None,
        name=ds._name,
    )


def _cache(ds: Any) -> ir.Node:
    return ir.Cache(input=_extract(ds._input_dataset), filename=_scalar(ds._filename), origin=ds, name=ds._name)


def _zip(ds: Any) -> ir.Node:
    import tensorflow as tf

    start = enumerate_start(ds._datasets)
    if start is not None:
        return ir.Enumerate(input=_extract(ds._datasets[1]), start=start, name=ds._name)
    parts = ds._inputs()
    return ir.Zip(
        parts=tuple(_extract(part) for part in parts),
        structure=tf.nest.pack_sequence_as(ds._datasets, list(range(len(parts)))),
        name=ds._name,
    )


def _choose_from(ds: Any) -> ir.Node:
    return ir.ChooseFrom(
        choices=_extract(ds._selector_input),
        parts=tuple(map(_extract, ds._data_inputs)),
        stop_on_empty=bool(ds._stop_on_empty_dataset),
        element_spec=ds.element_spec,
    )


def _random(ds: Any) -> ir.Node:
    if ds._rerandomize:
        return _opaque(ds, "it draws other numbers for every iterator, from a state of its own")
    return ir.RandomNumbers(dataset=ds, name=ds._name)


def _concatenate(ds: Any) -> ir.Node:
    first, second = ds._inputs()
    return ir.Concatenate(first=_extract(first), second=_extract(second), name=ds._name)


def _options(ds: Any) -> ir.Node:
    return ir.Options(input=_extract(ds._input_dataset), options=ds.options(), name=ds._name)


def _tfrecord(ds: Any) -> ir.Node:
    return _files(ds, "tfrecord", num_parallel_reads=ds._num_parallel_reads)


def _text_lines(ds: Any) -> ir.Node:
    return _files(ds, "text", num_parallel_reads=_parallel_reads(ds._impl))


def _fixed_length(ds: Any) -> ir.Node:
    sizes = (ds._header_bytes, ds._record_bytes, ds._footer_bytes)
    return _files(
        ds,
        "fixed_length",
        num_parallel_reads=_parallel_reads(ds._impl),
        record_bytes=tuple(0 if size is None else int(_scalar(size)) for size in sizes),
    )


def _csv(ds: Any) -> ir.Node:
    import tensorflow as tf

    if not hasattr(ds, _NAMES):
        # One for each reader, so that its node is the same whenever it is read.
        setattr(ds, _NAMES, tf.data.Dataset.from_tensor_slices(tf.reshape(ds._filenames, [-1])))
    arguments = {name: _csv_argument(getattr(ds, f"_{name}")) for name in _CSV_ARGUMENTS}
    return ir.FilesReader(
        input=_extract(getattr(ds, _NAMES)),
        kind="csv",
        compression_type=_scalar(ds._compression_type) or None,
        csv=ir.CsvFormat(columns=tuple(map(_csv_column, ds._record_defaults)), arguments=tuple(arguments.items())),
    )


def _csv_column(default: Any) -> tuple[str, bytes | None]:
    values = default.numpy().ravel().tolist()
    return default.dtype.name, next((each if isinstance(each, bytes) else repr(each).encode() for each in values), None)


def _csv_argument(tensor: Any) -> Any:
    return _scalar(tensor) if tensor.shape.rank == 0 else tuple(tensor.numpy().tolist()) or None


def _files(ds: Any, kind: str, **arguments: Any) -> ir.Node:
    return ir.FilesReader(
        input=_extract(ds._filenames),
        kind=kind,
        compression_type=_scalar(ds._compression_type),
        buffer_size=_scalar(ds._buffer_size),
        name=ds._impl._name,
        **arguments,
    )


def _parallel_reads(implementation: Any) -> int | None:
    """Return how many files a reader reads at once, from the dataset TensorFlow implements it with."""
    match type(implementation).__name__:
        case "_ParallelInterleaveDataset":
            return int(_scalar(implementation._num_parallel_calls))
        case "ParallelInterleaveDataset":
            return int(_scalar(implementation._cycle_length))
        case _:
            return None


_UNREAD = {
    "_CopyToDeviceDataset": "elements are on another device after it, where autopipe changes nothing; put it after "
    "optimize(), as in autopipe.optimize(dataset).apply(tf.data.experimental.prefetch_to_device(device))",
}
# What a reader that has the names of its files as a tensor is given: a dataset of them.
_NAMES = "_autopipe_names"
_CSV_ARGUMENTS = "buffer_size header field_delim use_quote_delim na_value select_cols exclude_cols".split()
_READERS: dict[str, Callable[[Any], ir.Node]] = {
    "CacheDataset": _cache,
    "CsvDatasetV2": _csv,
    "FixedLengthRecordDatasetV2": _fixed_length,
    "ParallelInterleaveDataset": _legacy_interleave,
    "TFRecordDatasetV2": _tfrecord,
    "TextLineDatasetV2": _text_lines,
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
    "_RepeatDataset": _unary(ir.Repeat, "count"),
    "_ShardDataset": _unary(ir.Shard, "num_shards", "index"),
    "_ShuffleDataset": _shuffle,
    "_SkipDataset": _unary(ir.Skip, "count"),
    "_TakeDataset": _unary(ir.Take, "count"),
    "_TensorDataset": _tensors,
    "_TensorSliceDataset": _tensor_slices,
    "_UnbatchDataset": _unbatch,
    "_WindowDataset": _unary(ir.Window, "size", "shift", "stride", "drop_remainder"),
    "_ZipDataset": _zip,
}
