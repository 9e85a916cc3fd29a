"""How TensorFlow models a pipeline that runs: the nodes from which autopipe tells what its stages cost.

When one of these fails, TensorFlow changed there.
"""

import re

import pytest
import tensorflow as tf

Dataset = tf.data.Dataset


def upwards(x):
    return Dataset.range(x, x + 9)


def modelled(dataset, elements=2):
    """Return the nodes by which TensorFlow models a dataset, from its end, without what it adds by itself."""
    options = tf.data.Options()
    options.autotune.enabled = True
    options.experimental_optimization.inject_prefetch = False
    iterator = iter(dataset.with_options(options))
    for _ in range(elements):
        next(iterator)
    model = tf.data.experimental.get_model_proto(iterator)
    nodes, numbers = [], [model.output]
    while numbers:
        nodes.append(model.nodes[numbers[0]])
        numbers = list(nodes[-1].inputs) + numbers[1:]
    assert nodes[0].name == "Root"
    return nodes[1:]


def kind(node):
    return re.sub(r"V\d+$", "", node.name)


def parameters(node):
    return {each.name: each.state_value if each.tunable else each.value for each in node.parameters}


LONG = Dataset.range(1000)
# Each kind by the name of its node and the ratio of elements taken to elements given; 0 where that is not fixed.
MODELS = [
    (LONG, "Range", 0),
    (Dataset.from_tensors(1).repeat(), "ForeverRepeat", 1),
    (Dataset.from_tensor_slices([1, 2, 3]), "TensorSlice", 0),
    (LONG.map(lambda x: x + 1, synchronous=True), "Map", 1),
    (LONG.map(lambda x: x + 1), "ParallelMap", 1),
    (LONG.map(lambda x: x + 1, num_parallel_calls=2), "ParallelMap", 1),
    (LONG.filter(lambda x: x >= 0), "Filter", 0),
    (LONG.flat_map(upwards), "FlatMap", 0),
    (LONG.interleave(upwards, cycle_length=2), "Interleave", 0),
    (LONG.interleave(upwards, cycle_length=2, num_parallel_calls=2), "ParallelInterleave", 0),
    (LONG.batch(2), "Batch", 2),
    (LONG.batch(2, num_parallel_calls=2), "ParallelBatch", 2),
    (LONG.padded_batch(2), "PaddedBatch", 2),
    (LONG.batch(2).unbatch(), "Unbatch", 0),
    (LONG.batch(2).rebatch(3), "Rebatch", 0),
    (LONG.window(4, 3).flat_map(lambda window: window.batch(4)), "FlatMap", 0),
    (LONG.ignore_errors(), "IgnoreErrors", 1),
    (LONG.shuffle(5), "Shuffle", 1),
    (LONG.repeat(3), "FiniteRepeat", 1),
    (LONG.repeat(), "ForeverRepeat", 1),
    (LONG.cache(), "MemoryCache", 1),
    (LONG.prefetch(2), "Prefetch", 1),
    (LONG.take(9), "FiniteTake", 1),
    (LONG.skip(9), "FiniteSkip", 1),
    # Four elements make one; TensorFlow has it the wrong way round.
    (LONG.shard(4, 1), "Shard", 0.25),
    (LONG.enumerate(), "Zip", 1),
    (Dataset.zip((LONG, LONG)), "Zip", 1),
    (LONG.concatenate(LONG), "Concatenate", 1),
    (LONG.shuffle(5).repeat(), "ShuffleAndRepeat", 1),
    (LONG.map(lambda x: x + 1).batch(8), "MapAndBatch", 8),
    (LONG.map(lambda x: x + 1, num_parallel_calls=2).batch(8), "MapAndBatch", 8),
]


@pytest.mark.parametrize(("dataset", "name", "ratio"), MODELS, ids=[f"{n}-{each[1]}" for n, each in enumerate(MODELS)])
def test_a_stage_is_modelled_by_a_node_of_its_name_and_ratio(dataset, name, ratio):
    node = modelled(dataset)[0]
    assert kind(node) == name, tf.__version__
    assert node.ratio == ratio, tf.__version__
    assert node.num_elements >= 2
    assert node.processing_time > 0
    assert node.bytes_produced >= 8


def test_a_window_takes_as_many_elements_as_it_moves():
    window = modelled(LONG.window(4, 3).flat_map(lambda window: window.batch(4)))[1]
    assert (kind(window), window.ratio) == ("Window", 3), tf.__version__


def test_a_cache_is_modelled_by_two_nodes_of_which_the_second_holds_the_elements(tmp_path):
    for dataset, name in ((LONG.cache(), "MemoryCache"), (LONG.cache(str(tmp_path / "cache")), "FileCache")):
        outer, inner = modelled(dataset)[:2]
        assert [kind(outer), kind(inner)] == [name, f"{name}Impl"], tf.__version__
    assert modelled(LONG.cache())[1].buffered_bytes >= 16, tf.__version__


@pytest.mark.parametrize(
    ("dataset", "calls"),
    [
        (LONG.map(lambda x: x + 1, num_parallel_calls=3), 3),
        (LONG.map(lambda x: x + 1, num_parallel_calls=3).batch(2), 3),
        (LONG.batch(2, num_parallel_calls=3), 3),
        (LONG.interleave(upwards, cycle_length=4, num_parallel_calls=3), 3),
    ],
)
def test_a_parallel_stage_has_its_calls_as_a_parameter_and_works_ahead(dataset, calls):
    node = modelled(dataset)[0]
    assert parameters(node)["parallelism"] == calls, tf.__version__
    classes = node.DESCRIPTOR.fields_by_name["node_class"].enum_type.values_by_number
    assert classes[node.node_class].name.startswith("ASYNC"), tf.__version__


def test_an_interleave_has_its_cycle_and_a_prefetch_its_buffer_as_a_parameter():
    interleave = modelled(LONG.interleave(upwards, cycle_length=4, num_parallel_calls=2))[0]
    assert parameters(interleave)["cycle_length"] == 4, tf.__version__
    assert parameters(modelled(LONG.prefetch(3))[0])["buffer_size"] == 3, tf.__version__


def test_the_names_of_what_is_interleaved_come_first_and_are_numbered_next(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("line\n" * 9)
    readers = [tf.data.TextLineDataset([str(file)] * 3, num_parallel_reads=reads) for reads in (None, 2, -1)]
    for dataset in (LONG.flat_map(upwards), LONG.interleave(upwards, cycle_length=2), *readers):
        first, names = modelled(dataset, 1)[:2]
        if kind(first) != "LegacyParallelInterleave":  # it comes to the end of the names at once
            assert first.inputs[0] == names.id == first.id + 1, tf.__version__
            assert kind(names) in ("Range", "TensorSlice"), tf.__version__


@pytest.mark.parametrize("reads", [None, 2, -1])
def test_what_the_names_name_is_never_numbered_next(tmp_path, reads):
    file = tmp_path / "lines.txt"
    file.write_text("line\n" * 9)
    for elements in (1, 12, 25):
        outer, *inner = modelled(tf.data.TextLineDataset([str(file)] * 3, num_parallel_reads=reads), elements)
        for node in inner:
            assert (node.id == outer.id + 1) == (kind(node) == "TensorSlice"), tf.__version__


def test_a_reader_of_files_is_a_flat_map_or_an_interleave(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("line\n" * 9)
    kinds = []
    for reads in (None, 2, -1):
        kinds.append(kind(modelled(tf.data.TextLineDataset([str(file)] * 3, num_parallel_reads=reads), 1)[0]))
    assert kinds == ["FlatMap", "LegacyParallelInterleave", "ParallelInterleave"], tf.__version__


def test_without_autotuning_there_is_no_model():
    options = tf.data.Options()
    options.autotune.enabled = False
    iterator = iter(LONG.with_options(options))
    next(iterator)
    with pytest.raises(tf.errors.NotFoundError):
        tf.data.experimental.get_model_proto(iterator)


def test_the_model_of_an_iterator_that_was_given_a_state_cannot_be_seen():
    iterator = iter(LONG)
    next(iterator)
    resource = iterator._iterator_resource
    state = tf.raw_ops.SerializeIterator(resource_handle=resource, external_state_policy=1)
    tf.raw_ops.DeserializeIterator(resource_handle=resource, serialized=state)
    with pytest.raises(tf.errors.NotFoundError):
        tf.data.experimental.get_model_proto(iterator)
