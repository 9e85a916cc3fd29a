"""Tree -> Dataset, carrying every argument.

Only public TensorFlow is used here: ``tf.raw_ops`` where a transformation holds a traced function or a pair of
seeds, which the methods of ``tf.data.Dataset`` would trace or draw anew, and those methods for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from autopipe.pipeline import ir
from autopipe.pipeline.extract import element_shapes, element_types

__all__ = ["build", "build_stage", "memory_caches"]


def build(node: ir.Node, memories: Iterator[Any] | None = None) -> Any:
    """Make the dataset that a tree describes. A node that is used twice becomes one dataset, with one seed generator.

    Args:
        node: the last transformation.
        memories: the resource that each memory cache keeps its elements in, in the order of :func:`memory_caches`. By
            default each has one of its own, which goes with the dataset.

    Returns:
        A ``tf.data.Dataset``. The caller keeps ``node`` alive as long as the dataset: it holds what the
        functions capture.

    >>> import tensorflow as tf
    >>> from autopipe.pipeline.extract import extract
    >>> tree = extract(tf.data.Dataset.range(5).map(lambda x: x * x).batch(2))
    >>> [batch.tolist() for batch in build(tree).as_numpy_iterator()]
    [[0, 1], [4, 9], [16]]
    """
    made: dict[int, Any] = {}

    def built(each: ir.Node) -> Any:
        if id(each) not in made:
            inputs = [built(one) for one in each.inputs]
            if memories is not None and _is_memory_cache(each):
                made[id(each)] = _cache_in(next(memories), each, *inputs)
            else:
                made[id(each)] = build_stage(each, *inputs)
        return made[id(each)]

    return built(node)


def memory_caches(node: ir.Node) -> list[ir.Node]:
    """Return the memory caches of a pipeline in the order they are built; one that is used twice comes once."""
    found: dict[int, ir.Node] = {}

    def find(each: ir.Node) -> None:
        for one in each.inputs:
            find(one)
        if _is_memory_cache(each):
            found.setdefault(id(each), each)

    find(node)
    return list(found.values())


def _is_memory_cache(node: ir.Node) -> bool:
    return isinstance(node, ir.Cache) and node.in_memory


def _cache_in(memory: Any, node: ir.Node, source: Any) -> Any:
    import tensorflow as tf

    variant = tf.raw_ops.CacheDatasetV2(
        input_dataset=tf.data.experimental.to_variant(source),
        filename="",
        cache=memory,
        **_common(node, element_types(source), element_shapes(source)),
    )
    return _from_variant(variant, source.element_spec)


@singledispatch
def build_stage(node: ir.Node, *inputs: Any) -> Any:
    """Make the dataset of one transformation on those of its inputs."""
    raise TypeError(f"Every node must have a builder, but {type(node).__name__} has none for {len(inputs)} inputs.")


@build_stage.register
def _source(node: ir.Source) -> Any:
    return node.dataset


@build_stage.register
def _files_reader(node: ir.FilesReader, files: Any) -> Any:
    import tensorflow as tf

    arguments = {
        "compression_type": node.compression_type,
        "buffer_size": node.buffer_size,
        "num_parallel_reads": node.num_parallel_reads,
        "name": node.name,
    }
    match node.kind:
        case "tfrecord":
            return tf.data.TFRecordDataset(files, **arguments)
        case "text":
            return tf.data.TextLineDataset(files, **arguments)
        case "fixed_length":
            assert node.record_bytes is not None
            header, record, footer = node.record_bytes
            return tf.data.FixedLengthRecordDataset(
                files, record, header_bytes=header, footer_bytes=footer, **arguments
            )
        case "csv":
            return _csv(node, files)
        case unknown:
            raise TypeError(f"A reader's kind must be tfrecord, text, fixed_length or csv, but got {unknown!r}.")


def _csv(node: ir.FilesReader, files: Any) -> Any:
    import tensorflow as tf

    assert node.csv is not None
    columns = [_csv_default(*column) for column in node.csv.columns]
    arguments = {"compression_type": node.compression_type, **dict(node.csv.arguments)}

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def rows(names: Any) -> Any:
        return tf.data.experimental.CsvDataset(names, columns, **arguments)

    return rows(node.input.components[0]) if isinstance(node.input, ir.TensorSlices) else files.flat_map(rows)


def _csv_default(kind: str, default: bytes | None) -> Any:
    import tensorflow as tf

    if default is None:
        return tf.dtypes.as_dtype(kind)
    return tf.constant([default if kind == "string" else float(default) if "float" in kind else int(default)], kind)


@build_stage.register
def _map(node: ir.Map, source: Any) -> Any:
    import tensorflow as tf

    common = _common(node, node.fn.element_types, node.fn.element_shapes) | {
        "input_dataset": tf.data.experimental.to_variant(source),
        "other_arguments": node.fn.concrete.captured_inputs,
        "f": node.fn.concrete,
        "use_inter_op_parallelism": node.use_inter_op_parallelism,
        "preserve_cardinality": node.preserve_cardinality,
    }
    if node.num_parallel_calls is None:
        variant = tf.raw_ops.MapDataset(force_synchronous=node.synchronous, **common)
    else:
        variant = tf.raw_ops.ParallelMapDatasetV2(
            num_parallel_calls=tf.constant(node.num_parallel_calls, tf.int64),
            deterministic=_deterministic(node.deterministic),
            use_unbounded_threadpool=node.use_unbounded_threadpool,
            **common,
        )
    return _from_variant(variant, node.fn.output_spec)


@build_stage.register
def _filter(node: ir.Filter, source: Any) -> Any:
    import tensorflow as tf

    variant = tf.raw_ops.FilterDataset(
        input_dataset=tf.data.experimental.to_variant(source),
        other_arguments=node.predicate.concrete.captured_inputs,
        predicate=node.predicate.concrete,
        **_common(node, element_types(source), element_shapes(source)),
    )
    return _from_variant(variant, source.element_spec)


@build_stage.register
def _flat_map(node: ir.FlatMap, source: Any) -> Any:
    import tensorflow as tf

    variant = tf.raw_ops.FlatMapDataset(
        input_dataset=tf.data.experimental.to_variant(source),
        other_arguments=node.fn.concrete.captured_inputs,
        f=node.fn.concrete,
        **_common(node, node.fn.element_types, node.fn.element_shapes),
    )
    return _from_variant(variant, node.fn.output_spec.element_spec)


@build_stage.register
def _group_by_window(node: ir.GroupByWindow, source: Any) -> Any:
    import tensorflow as tf

    variant = tf.raw_ops.GroupByWindowDataset(
        input_dataset=tf.data.experimental.to_variant(source),
        key_func_other_arguments=node.key_func.concrete.captured_inputs,
        reduce_func_other_arguments=node.reduce_func.concrete.captured_inputs,
        window_size_func_other_arguments=node.window_size_func.concrete.captured_inputs,
        key_func=node.key_func.concrete,
        reduce_func=node.reduce_func.concrete,
        window_size_func=node.window_size_func.concrete,
        **_common(node, node.reduce_func.element_types, node.reduce_func.element_shapes),
    )
    return _from_variant(variant, node.reduce_func.output_spec.element_spec)


@build_stage.register
def _interleave(node: ir.Interleave, source: Any) -> Any:
    import tensorflow as tf

    common = _common(node, node.fn.element_types, node.fn.element_shapes) | {
        "input_dataset": tf.data.experimental.to_variant(source),
        "other_arguments": node.fn.concrete.captured_inputs,
        "f": node.fn.concrete,
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
            deterministic=_deterministic(node.deterministic),
            **common,
        )
    return _from_variant(variant, node.fn.output_spec.element_spec)


@build_stage.register
def _legacy_interleave(node: ir.LegacyInterleave, source: Any) -> Any:
    import tensorflow as tf

    variant = tf.raw_ops.LegacyParallelInterleaveDatasetV2(
        input_dataset=tf.data.experimental.to_variant(source),
        other_arguments=node.fn.concrete.captured_inputs,
        f=node.fn.concrete,
        cycle_length=tf.constant(node.cycle_length, tf.int64),
        block_length=tf.constant(node.block_length, tf.int64),
        deterministic=_deterministic(node.deterministic),
        buffer_output_elements=tf.constant(node.buffer_output_elements, tf.int64),
        prefetch_input_elements=tf.constant(node.prefetch_input_elements, tf.int64),
        **_common(node, node.fn.element_types, node.fn.element_shapes),
    )
    return _from_variant(variant, node.fn.output_spec.element_spec)


@build_stage.register
def _scan(node: ir.Scan, source: Any) -> Any:
    import tensorflow as tf

    _, output_spec = node.fn.output_spec
    variant = tf.raw_ops.ScanDataset(
        input_dataset=tf.data.experimental.to_variant(source),
        initial_state=list(node.initial_state),
        other_arguments=node.fn.concrete.captured_inputs,
        f=node.fn.concrete,
        preserve_cardinality=True,
        use_default_device=node.use_default_device,
        **_common(node, node.fn.element_types, node.fn.element_shapes),
    )
    return _from_variant(variant, output_spec)


@build_stage.register
def _take_while(node: ir.TakeWhile, source: Any) -> Any:
    import tensorflow as tf

    variant = tf.raw_ops.TakeWhileDataset(
        input_dataset=tf.data.experimental.to_variant(source),
        other_arguments=node.predicate.concrete.captured_inputs,
        predicate=node.predicate.concrete,
        **_common(node, element_types(source), element_shapes(source)),
    )
    return _from_variant(variant, source.element_spec)


@build_stage.register
def _shuffle(node: ir.Shuffle, source: Any) -> Any:
    import tensorflow as tf

    seed, seed2 = node.seeds
    variant = tf.raw_ops.ShuffleDatasetV3(
        input_dataset=tf.data.experimental.to_variant(source),
        buffer_size=tf.constant(node.buffer_size, tf.int64),
        seed=tf.constant(seed, tf.int64),
        seed2=tf.constant(seed2, tf.int64),
        seed_generator=tf.raw_ops.DummySeedGenerator() if node.seed_generator is None else node.seed_generator[0],
        reshuffle_each_iteration=node.reshuffle_each_iteration,
        **_common(node, element_types(source), element_shapes(source)),
    )
    return _from_variant(variant, source.element_spec)


@build_stage.register
def _batch(node: ir.Batch, source: Any) -> Any:
    parallel = {}
    if node.num_parallel_calls is not None:
        parallel = {"num_parallel_calls": node.num_parallel_calls, "deterministic": node.deterministic}
    return source.batch(node.batch_size, drop_remainder=node.drop_remainder, name=node.name, **parallel)


@build_stage.register
def _padded_batch(node: ir.PaddedBatch, source: Any) -> Any:
    import tensorflow as tf

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
    import tensorflow as tf

    return source.apply(tf.data.experimental.assert_cardinality(node.count))


@build_stage.register
def _enumerate(node: ir.Enumerate, source: Any) -> Any:
    return source.enumerate(node.start, name=node.name)


@build_stage.register
def _options(node: ir.Options, source: Any) -> Any:
    return source.with_options(node.options, name=node.name)


@build_stage.register
def _thread_pool(node: ir.ThreadPool, source: Any) -> Any:
    import tensorflow as tf

    if not node.size and not node.max_intra_op_parallelism:
        return source
    options = tf.data.Options()
    if node.size:
        options.threading.private_threadpool_size = node.size
    if node.max_intra_op_parallelism:
        options.threading.max_intra_op_parallelism = node.max_intra_op_parallelism
    return source.with_options(options)


@build_stage.register
def _zip(node: ir.Zip, *parts: Any) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.zip(tf.nest.pack_sequence_as(node.structure, list(parts)), name=node.name)


@build_stage.register
def _concatenate(node: ir.Concatenate, first: Any, second: Any) -> Any:
    return first.concatenate(second, name=node.name)


@build_stage.register
def _choose_from(node: ir.ChooseFrom, choices: Any, *parts: Any) -> Any:
    import tensorflow as tf

    # The method of that name hides the choices in a graph: who reads it could not look into them any more.
    variants = [tf.data.experimental.to_variant(part) for part in parts]
    typed = _from_variant(variants[0], node.element_spec)
    variant = tf.raw_ops.DirectedInterleaveDataset(
        selector_input_dataset=tf.data.experimental.to_variant(choices),
        data_input_datasets=variants,
        output_types=element_types(typed),
        output_shapes=element_shapes(typed),
        stop_on_empty_dataset=node.stop_on_empty,
    )
    return _from_variant(variant, node.element_spec)


def _common(node: ir.Node, types: Any, shapes: Any) -> dict[str, Any]:
    return {"output_types": list(types), "output_shapes": list(shapes), "metadata": _metadata(node.name)}


def _metadata(name: str | None) -> bytes:
    """Return the serialized ``tensorflow.data.Metadata`` that carries a stage's name (field 1, a string)."""
    if not name:
        return b""
    text = name.encode()
    return b"\x0a" + _varint(len(text)) + text


def _varint(number: int) -> bytes:
    low, high = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(high) if high else bytes([low])


def _deterministic(value: bool | None) -> str:
    return {True: "true", False: "false", None: "default"}[value]


def _from_variant(variant: Any, element_spec: Any) -> Any:
    import tensorflow as tf

    return tf.data.experimental.from_variant(variant, element_spec)
