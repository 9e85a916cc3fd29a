"""The private parts of TensorFlow that autopipe relies on. When one of these fails, TensorFlow changed there."""

import inspect

import pytest
import tensorflow as tf

Dataset = tf.data.Dataset
RANGE = Dataset.range(4)


def same(x):
    return x


ATTRIBUTES = [
    (RANGE.map(same), "_MapDataset", "_input_dataset _force_synchronous _use_inter_op_parallelism _name"),
    (
        RANGE.map(same, num_parallel_calls=2),
        "_ParallelMapDataset",
        "_num_parallel_calls _deterministic _use_unbounded_threadpool _preserve_cardinality",
    ),
    (RANGE.filter(lambda x: x > 1), "_FilterDataset", "_input_dataset _predicate"),
    (RANGE.flat_map(Dataset.range), "_FlatMapDataset", "_input_dataset _map_func"),
    (
        RANGE.group_by_window(lambda x: x, lambda key, window: window, 2),
        "_GroupByWindowDataset",
        "_input_dataset _key_func _reduce_func _window_size_func",
    ),
    (
        RANGE.apply(tf.data.experimental.assert_cardinality(1)),
        "_AssertCardinalityDataset",
        "_input_dataset _expected_cardinality",
    ),
    (RANGE.interleave(Dataset.range), "_InterleaveDataset", "_cycle_length _block_length"),
    (
        RANGE.apply(tf.data.experimental.parallel_interleave(Dataset.range, 2)),
        "ParallelInterleaveDataset",
        "_cycle_length _block_length _deterministic _buffer_output_elements _prefetch_input_elements",
    ),
    (
        RANGE.interleave(Dataset.range, num_parallel_calls=2),
        "_ParallelInterleaveDataset",
        "_cycle_length _block_length _num_parallel_calls _buffer_output_elements _prefetch_input_elements",
    ),
    (RANGE.batch(2), "_BatchDataset", "_batch_size _drop_remainder"),
    (RANGE.batch(2, num_parallel_calls=2), "_ParallelBatchDataset", "_num_parallel_calls _deterministic"),
    (RANGE.padded_batch(2), "_PaddedBatchDataset", "_padded_shapes _padding_values _drop_remainder"),
    (RANGE.shuffle(2), "_ShuffleDataset", "_buffer_size _seed _seed2 _reshuffle_each_iteration"),
    (RANGE.batch(2).rebatch(3), "_RebatchDataset", "_input_dataset _batch_sizes _drop_remainder"),
    (RANGE.window(2), "_WindowDataset", "_size _shift _stride _drop_remainder"),
    (RANGE.ignore_errors(), "_IgnoreErrorsDataset", "_input_dataset _name"),
    (RANGE.repeat(2), "_RepeatDataset", "_count"),
    (RANGE.cache(), "CacheDataset", "_filename"),
    (RANGE.prefetch(2), "_PrefetchDataset", "_buffer_size"),
    (RANGE.take(2), "_TakeDataset", "_count"),
    (RANGE.skip(2), "_SkipDataset", "_count"),
    (RANGE.shard(2, 0), "_ShardDataset", "_num_shards _index"),
    (Dataset.zip((RANGE, RANGE)), "_ZipDataset", "_datasets"),
    (Dataset.random(), "_RandomDataset", "_rerandomize _seed _seed2 _name"),
    (
        Dataset.choose_from_datasets([RANGE, RANGE], RANGE),
        "_DirectedInterleaveDataset",
        "_selector_input _data_inputs _stop_on_empty_dataset",
    ),
    (RANGE.concatenate(RANGE), "_ConcatenateDataset", "_input_dataset _dataset_to_concatenate _name"),
    (RANGE.with_options(tf.data.Options()), "_OptionsDataset", "_input_dataset"),
    (RANGE, "_RangeDataset", "_start _stop _step"),
    (Dataset.from_tensors(1), "_TensorDataset", "_tensors"),
    (Dataset.from_tensor_slices([1]), "_TensorSliceDataset", "_tensors"),
    (
        tf.data.TFRecordDataset(["a"]),
        "TFRecordDatasetV2",
        "_filenames _compression_type _buffer_size _num_parallel_reads",
    ),
    (
        tf.data.experimental.CsvDataset("a", [tf.int32]),
        "CsvDatasetV2",
        "_filenames _record_defaults _compression_type _buffer_size _header _field_delim _use_quote_delim _na_value "
        "_select_cols _exclude_cols",
    ),
    (RANGE.scan(0, lambda state, x: (state, x)), "_ScanDataset", "_input_dataset _initial_state _functions"),
    (RANGE.take_while(lambda x: x < 1), "_TakeWhileDataset", "_input_dataset _functions"),
    (tf.data.TextLineDataset(["a"]), "TextLineDatasetV2", "_filenames _compression_type _buffer_size _impl"),
    (
        tf.data.FixedLengthRecordDataset(["a"], 2),
        "FixedLengthRecordDatasetV2",
        "_filenames _record_bytes _header_bytes _footer_bytes _impl",
    ),
]


def test_a_ragged_batch_is_a_batch_of_a_dataset_that_wraps_a_map():
    (encoding,) = RANGE.ragged_batch(2)._inputs()
    assert type(encoding).__name__ == "_DenseToRaggedDataset", tf.__version__
    assert type(encoding._mapped_dataset).__name__ == "_MapDataset", tf.__version__


@pytest.mark.parametrize(("dataset", "name", "attributes"), ATTRIBUTES, ids=[each[1] for each in ATTRIBUTES])
def test_a_transformation_keeps_its_arguments(dataset, name, attributes):
    assert type(dataset).__name__ == name, tf.__version__
    missing = [attribute for attribute in attributes.split() if not hasattr(dataset, attribute)]
    assert not missing, f"TensorFlow {tf.__version__} has no {name}.{missing[0]}"


def test_a_dataset_shows_its_inputs_functions_and_form():
    dataset = RANGE.map(same)
    (wrapper,) = dataset._functions()
    assert [type(each).__name__ for each in dataset._inputs()] == ["_RangeDataset"]
    assert wrapper._func is same
    assert wrapper._input_structure == RANGE.element_spec
    assert wrapper.output_structure == dataset.element_spec
    assert wrapper.function.captured_inputs == []
    assert (list(dataset._flat_types), list(dataset._flat_shapes)) == ([tf.int64], [tf.TensorShape([])])


def test_what_groups_elements_wraps_the_functions_it_was_given_and_makes_one_of_a_size():
    def held(wrapper):
        assert wrapper._func.__module__ == "tensorflow.python.data.ops.group_by_window_op"
        return inspect.getclosurevars(wrapper._func).nonlocals

    key, reduce, size = RANGE.group_by_window(same, lambda key, window: window, 2)._functions()
    assert held(key)["key_func"] is same
    assert reduce._func.__name__ == "<lambda>"
    assert inspect.getclosurevars(held(size)["window_size_func"]).nonlocals == {"window_size": 2}


def test_unbatch_puts_a_normalizing_map_and_a_restructuring_before_itself():
    restructured = RANGE.batch(2).unbatch()._input_dataset
    assert type(restructured).__name__ == "_RestructuredDataset"
    assert type(restructured._input_dataset).__name__ == "_MapDataset"


def test_the_constructor_of_the_base_makes_every_dataset(monkeypatch):
    constructor, made = Dataset.__init__, []
    monkeypatch.setattr(Dataset, "__init__", lambda self, *given: made.append(type(self)) or constructor(self, *given))
    assert type(RANGE.map(same)) in made


def test_an_iterator_shows_its_resource_and_holds_its_dataset():
    iterator = iter(RANGE)
    assert iterator._iterator_resource.dtype == tf.resource
    assert iterator._dataset is not None


def test_an_iterator_asks_itself_for_its_elements():
    iterator, asked = iter(RANGE), []

    class Asked(type(iterator)):
        def _next_internal(self):
            asked.append(1)
            return super()._next_internal()

    iterator.__class__ = Asked
    assert [int(next(iterator)), int(iterator.get_next()), len(asked)] == [0, 1, 2]


def test_an_op_can_be_given_up_and_no_other_with_it():
    from tensorflow.python.eager import cancellation, context, execute

    def take(manager):
        attributes = ("output_types", [tf.int64.as_datatype_enum], "output_shapes", [[]])
        iterator = iter(RANGE)
        given = [iterator._iterator_resource]
        return execute.execute_with_cancellation("IteratorGetNext", 1, given, attributes, context.context(), manager)

    manager = cancellation.CancellationManager()
    assert int(take(manager)[0]) == 0, tf.__version__
    manager.start_cancel()
    with pytest.raises(tf.errors.CancelledError):
        take(manager)
    assert int(take(cancellation.CancellationManager())[0]) == 0, tf.__version__


def test_the_model_of_an_iterator_counts_at_its_root_what_was_given():
    def given():
        model = tf.data.experimental.get_model_proto(iterator)
        return model.nodes[model.output].num_elements

    iterator = iter(RANGE.map(same).prefetch(2))
    counts = [given(), next(iterator) is not None and given()]
    assert counts == [0, 1], tf.__version__


def test_python_code_is_registered_by_the_token_of_its_op():
    from tensorflow.python.ops import script_ops

    def registered(function):
        (wrapper,) = RANGE.map(function)._functions()
        (op,) = (op for op in wrapper.function.graph.get_operations() if op.type in ("PyFunc", "EagerPyFunc"))
        return script_ops._py_funcs.get(op.get_attr("token").decode())

    assert registered(lambda x: tf.numpy_function(same, [x], tf.int64)).__wrapped__ is same, tf.__version__
    assert registered(lambda x: tf.py_function(same, [x], tf.int64))._func.__wrapped__ is same, tf.__version__


def test_the_code_of_a_generator_holds_its_state_and_that_the_generator():
    from tensorflow.python.data.ops.dataset_ops import DatasetV2

    assert DatasetV2._GeneratorState(same)._generator is same, tf.__version__


def test_stateful_ops_are_registered_as_such():
    from tensorflow.python.framework import op_def_registry

    assert op_def_registry.get("RandomUniform").is_stateful
    assert not op_def_registry.get("AddV2").is_stateful


def test_a_graph_gives_the_functions_that_its_ops_call_and_takes_them_over():
    @tf.function
    def branching(x):
        return tf.cond(x > 0, lambda: x, lambda: -x)

    graph = branching.get_concrete_function(tf.TensorSpec((), tf.float32)).graph
    (op,) = (op for op in graph.get_operations() if op.type == "StatelessIf")
    function = graph._get_function(op.node_def.attr["then_branch"].func.name)

    assert function.graph.get_operations()
    with tf.Graph().as_default() as other:
        other._add_function_recursive(function)
    assert other._get_function(function.name.decode() if isinstance(function.name, bytes) else function.name)


def test_vectorized_map_asks_an_op_for_a_converter_of_its_own():
    from tensorflow.python.ops.parallel_for.pfor import wrap

    asked = []

    def upper(call):
        asked.append(call.op.type)
        return wrap(tf.strings.upper(call.stacked_input(0)), True)

    def one(text):
        made = tf.strings.upper(text)
        made.op.pfor_converter = upper
        return made

    batch = tf.function(lambda texts: tf.vectorized_map(one, texts, fallback_to_while_loop=False))
    assert batch(tf.constant(["a", "b"])).numpy().tolist() == [b"A", b"B"]
    assert asked == ["StringUpper"]


def test_vectorized_map_knows_the_ops_it_has_converters_for():
    from tensorflow.python.ops.parallel_for import pfor

    known = pfor._pfor_converter_registry
    assert {"AddV2", "MatMul", "StatelessIf"} <= known.keys(), tf.__version__
    assert "StatelessRandomUniformV2" not in known, tf.__version__


def test_the_state_of_an_iterator_has_an_entry_for_each_element_it_holds():
    lengths = []
    for held in (10, 1000):
        iterator = iter(Dataset.range(3000).shuffle(held))
        next(iterator)
        state = tf.raw_ops.SerializeIterator(resource_handle=iterator._iterator_resource, external_state_policy=1)
        lengths.append(len(state))
    assert lengths[1] - lengths[0] == pytest.approx(990, abs=5), tf.__version__


def test_a_checkpoint_asks_an_iterator_itself_for_what_it_saves(tmp_path):
    iterator = iter(RANGE)
    asked = iterator._serialize_to_tensors()
    assert set(asked) == {"_STATE"}
    times = []
    iterator._serialize_to_tensors = lambda: times.append(1) or asked
    tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "saved"))
    assert times


class Noting(tf.train.experimental.PythonState):
    def __init__(self, notes):
        super().__init__()
        self.notes = notes

    def serialize(self):
        return "saved"

    def deserialize(self, string):
        self.notes.append(string)


def test_python_state_that_an_iterator_tracks_is_restored_before_the_iterator(tmp_path):
    iterator, notes = iter(RANGE), []
    iterator._track_trackable(Noting(notes), "noting")
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    path = checkpoint.save(str(tmp_path / "saved"))
    iterator._restore_from_tensors = lambda saved: notes.append(set(saved)) or []
    checkpoint.restore(path)
    assert notes == [b"saved", {"_STATE"}]
