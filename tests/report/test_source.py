"""The code that is printed is run, and yields what the optimized pipeline does; what no code can say is told."""

import functools
import importlib
import sys

import numpy as np
import pytest
import tensorflow as tf

import autopipe
from autopipe import Plan
from autopipe.pipeline.extract import extract
from autopipe.pipeline.source_lines import noting_lines
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.planning.plans.fingerprint import fingerprint
from autopipe.report.source import source_of

Dataset = tf.data.Dataset
AUTOTUNE = tf.data.AUTOTUNE
ROWS = np.arange(60.0).reshape(20, 3)
LABELS = np.arange(20)


def scale(x):
    return tf.cast(x, tf.float32) / 2


def below_twenty(x):
    return x < 20


def shift(x):
    return x + 1


def both(x, y):
    return tf.reduce_sum(x) + tf.cast(y, x.dtype), y


def named(element):
    return {"sum": tf.reduce_sum(element["x"]), "y": element["y"]}


def written_out(x):
    return tf.strings.as_string(x)


def beside(x, y):
    return tf.strings.as_string(x), y


def is_even(x):
    return x % 2 == 0


def up_to(x):
    return Dataset.range(x)


def batched(window):
    return window.batch(3)


def checked(x):
    tf.debugging.assert_none_equal(x, tf.constant(3, x.dtype))
    return x


def remainder(x):
    return x % 3


def of_four(key, group):
    return group.batch(4)


def one_more(key):
    return key + 1


class Steps:
    @staticmethod
    def third(x):
        return x * 3


def with_options(dataset):
    options = tf.data.Options()
    options.deterministic = True
    options.threading.private_threadpool_size = 3
    options.experimental_optimization.map_fusion = True
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    return dataset.with_options(options)


def shared():
    base = Dataset.range(6).map(shift)
    return Dataset.zip({"a": base, "b": (base.map(scale), Dataset.range(5).concatenate(base))}).batch(2)


def seeded(seed):
    return Dataset.range(20).shuffle(7, seed=seed).repeat(2).batch(6)


PIPELINES = {
    "map and batch": lambda: Dataset.range(20).map(scale).map(shift).batch(4, drop_remainder=True),
    "range": lambda: Dataset.range(3, 30, 4, output_type=tf.int32).enumerate().enumerate(5),
    "static method": lambda: Dataset.range(9).map(Steps.third, num_parallel_calls=1, deterministic=False).repeat(2),
    "of TensorFlow": lambda: Dataset.range(9).map(tf.strings.as_string).map(tf.strings.length),
    "synchronous": lambda: Dataset.range(9).map(shift, synchronous=True),
    "unbounded": lambda: Dataset.range(9).map(shift, num_parallel_calls=AUTOTUNE, use_unbounded_threadpool=True),
    "filter": lambda: Dataset.range(30).filter(is_even).take(9).skip(2).shard(2, 1),
    "take all": lambda: Dataset.range(9).take(-1).cache().prefetch(3),
    "flat map": lambda: Dataset.range(6).flat_map(up_to),
    "interleave": lambda: Dataset.range(6).interleave(up_to, cycle_length=3, block_length=2),
    "parallel": lambda: Dataset.range(6).interleave(up_to, cycle_length=2, num_parallel_calls=2, deterministic=True),
    "batch again": lambda: Dataset.range(20).batch(3).unbatch().batch(4).rebatch(5, drop_remainder=True),
    "parallel batch": lambda: Dataset.range(20).batch(3, num_parallel_calls=2, deterministic=True),
    "padded": lambda: Dataset.range(1, 7).map(tf.range).padded_batch(2, [8], padding_values=tf.constant(-1, tf.int64)),
    "windows": lambda: Dataset.range(12).window(3, 2, drop_remainder=True).flat_map(batched),
    "windows with strides": lambda: Dataset.range(12).window(3, stride=2, drop_remainder=True).flat_map(batched),
    "windows in a row": lambda: Dataset.range(12).window(3).flat_map(batched),
    "groups": lambda: Dataset.range(20).group_by_window(remainder, of_four, window_size=4),
    "groups of any size": lambda: Dataset.range(20).group_by_window(remainder, of_four, window_size_func=one_more),
    "named groups": lambda: Dataset.range(20).group_by_window(remainder, of_four, np.int64(4), name="groups"),
    "errors": lambda: Dataset.range(6).map(checked).ignore_errors(log_warning=True),
    "seeded": lambda: seeded(3),
    "the same order": lambda: Dataset.range(9).shuffle(4, seed=5, reshuffle_each_iteration=False).repeat(2),
    "options": lambda: with_options(Dataset.range(9).map(shift)).batch(2),
    "named": lambda: Dataset.range(9, name="nine").map(shift, name="more").batch(2, name="pairs"),
    "shared": shared,
    "zipped": lambda: Dataset.zip((Dataset.range(3), (Dataset.range(4),))),
}


def optimized(dataset, *rules, **knobs):
    """Apply rules without timing them, and set knobs."""
    plan = Plan(fingerprint(extract(dataset)), rules=rules, knobs=knobs)
    found = autopipe.optimize(dataset, plan=plan)
    assert found.plan.rules == rules
    return found


def written(dataset):
    return source_of(dataset.explain().rewriting, dataset.tree, "a pipeline")


def run(source, *arguments):
    namespace = {}
    exec(compile(source.code, "printed.py", "exec"), namespace)
    return namespace["make_dataset"](*arguments)


def assert_same(one, two):
    assert one.element_spec == two.element_spec
    pairs = list(zip(one.as_numpy_iterator(), two.as_numpy_iterator(), strict=True))
    assert pairs
    for left, right in pairs:
        tf.nest.map_structure(np.testing.assert_array_equal, left, right)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", PIPELINES)
def test_the_printed_code_yields_what_the_pipeline_does(name):
    dataset = autopipe.optimize(PIPELINES[name](), rules=["prefetch_at_end"])
    source = written(dataset)
    assert not source.unwritten
    assert_same(run(source), dataset)


@pytest.mark.parametrize(
    ("make", "data"),
    [
        (lambda data: Dataset.from_tensor_slices(data).map(both).batch(4), (ROWS, LABELS)),
        (lambda data: Dataset.from_tensor_slices(data).map(named).batch(4), {"x": ROWS, "y": LABELS}),
        (lambda data: Dataset.from_tensors(data).repeat(3), ROWS),
        (lambda data: Dataset.from_tensor_slices(data).padded_batch(2), {"x": ROWS, "y": LABELS.astype(str)}),
    ],
)
def test_arrays_in_memory_are_an_argument(make, data):
    with noting_lines():
        dataset = make(data)
    dataset = autopipe.optimize(dataset, seconds=0)
    source = written(dataset)
    assert not source.unwritten
    assert "def make_dataset(data):" in source.code
    assert "in test_source.py:" in source.code
    assert_same(run(source, data), dataset)


def test_two_sources_are_two_arguments_and_one_that_is_used_twice_is_one():
    first, second = Dataset.from_tensor_slices(ROWS), Dataset.from_tensor_slices(LABELS)
    dataset = autopipe.optimize(Dataset.zip((first, second, first.skip(1))), seconds=0)
    source = written(dataset)
    assert "def make_dataset(data, data_2):" in source.code
    assert_same(run(source, ROWS, LABELS), dataset)


@pytest.mark.parametrize("stop", [False, True])
def test_what_draws_among_datasets_is_an_argument(stop):
    parts = [Dataset.range(9).map(scale), Dataset.range(4).map(scale)]
    sampled = Dataset.sample_from_datasets(parts, [0.5, 0.5], seed=2, stop_on_empty_dataset=stop)
    dataset = autopipe.optimize(sampled, rules=["prefetch_at_end"])
    source = written(dataset)
    assert len(source.unwritten) == 2
    assert "its numbers come from a seed of its own" in source.unwritten[0]
    choices = sampled._selector_input
    assert_same(run(source, choices._input_dataset._input_dataset, choices._map_func._func), dataset)


class TestWhatAutopipeMade:
    def test_two_functions_in_one_map_are_written_as_two_maps(self):
        maps = Dataset.range(20).map(scale, num_parallel_calls=2).map(shift, num_parallel_calls=2)
        dataset = optimized(maps.batch(4), "merge_maps")
        assert "map(scale then shift" in str(dataset.explain())
        source = written(dataset)
        assert not source.unwritten
        assert source.code.index("map(scale") < source.code.index("map(shift")
        assert_same(run(source), dataset)

    @pytest.mark.parametrize("rows", [ROWS, np.arange(2000.0).reshape(20, 100)], ids=["small", "large"])
    def test_rows_that_are_looked_up_are_written_as_a_gather(self, rows):
        data = {"x": rows, "y": LABELS}
        dataset = optimized(Dataset.from_tensor_slices(data).shuffle(20, seed=1).batch(6), "gather_from_memory")
        source = written(dataset)
        assert not source.unwritten
        assert "tf.gather" in source.code
        assert_same(run(source, data), dataset)

    @pytest.mark.parametrize(
        "make",
        [
            lambda files: tf.data.TextLineDataset(files, buffer_size=99),
            lambda files: tf.data.FixedLengthRecordDataset(files, 3, header_bytes=1, footer_bytes=1),
            lambda files: tf.data.TextLineDataset(Dataset.from_tensor_slices(files).take(2)),
        ],
    )
    def test_files_that_are_read_in_parallel_are_written_as_an_interleave(self, make, tmp_path):
        for name in "ab":
            (tmp_path / name).write_text("1234567890\n")
        files = [str(tmp_path / name) for name in "ab"]
        dataset = optimized(make(files), "parallel_reads")
        source = written(dataset)
        assert not source.unwritten
        assert "interleave(lambda file: tf.data." in source.code
        assert_same(run(source, files), dataset)

    def test_readers_keep_their_arguments(self, tmp_path):
        file = str(tmp_path / "a.gz")
        with tf.io.TFRecordWriter(file, "GZIP") as writer:
            writer.write(b"one")
        dataset = autopipe.optimize(tf.data.TFRecordDataset([file], "GZIP", num_parallel_reads=AUTOTUNE), seconds=0)
        source = written(dataset)
        assert "compression_type='GZIP', num_parallel_reads=tf.data.AUTOTUNE" in source.code
        assert_same(run(source, [file]), dataset)

    def test_a_csv_reader_is_written_with_its_columns(self, tmp_path):
        (tmp_path / "a.csv").write_text("a;b;c\n1;;x\n;2.5;NA\n")
        columns = [tf.constant([4], tf.int64), tf.float32, tf.constant([""])]
        given = {"header": True, "field_delim": ";", "na_value": "NA", "select_cols": [0, 1, 2]}
        for each in (
            columns[:1] + columns[2:],
            [tf.constant([4], tf.int64), tf.constant([float("nan")]), tf.constant(["'"])],
        ):
            given["select_cols"] = [0, 2] if len(each) == 2 else [0, 1, 2]
            dataset = autopipe.optimize(tf.data.experimental.CsvDataset(str(tmp_path / "a.csv"), each, **given))
            source = written(dataset)
            assert not source.unwritten
            assert_same(run(source, [str(tmp_path / "a.csv")]), dataset)

    def test_a_number_that_the_author_asserts_is_written(self):
        asserted = tf.data.experimental.assert_cardinality(5)
        dataset = autopipe.optimize(Dataset.range(9).filter(lambda x: x % 2 == 0).apply(asserted).batch(2), seconds=0)
        source = written(dataset)
        assert ".apply(tf.data.experimental.assert_cardinality(5))" in source.code
        assert_same(run(source, lambda x: x % 2 == 0), dataset)

    def test_a_shuffle_of_all_that_a_cache_holds_is_written(self, monkeypatch):
        monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
        rows = Dataset.range(9).shuffle(2).interleave(Dataset.from_tensors)
        dataset = autopipe.optimize(rows.map(tf.strings.as_string).shuffle(3), rules=["cache_free_order"])
        source = written(dataset)
        assert ".shuffle(tf.data.UNKNOWN_CARDINALITY)" in source.code
        assert "waits for all elements in the first epoch" in source.code

    @pytest.mark.parametrize(
        ("make", "called"),
        [
            (lambda: Dataset.range(9).shuffle(9, seed=1).take(5).map(written_out), "written_out(element)"),
            (lambda: Dataset.zip((Dataset.range(9),) * 2).skip(2).map(beside).take(5), "beside(*element)"),
        ],
    )
    @pytest.mark.usefixtures("as_fast")
    def test_what_is_memoized_is_written_as_a_map_of_numbered_elements(self, make, called, monkeypatch):
        monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
        dataset = autopipe.optimize(make(), rules=["cache_results"])
        source = written(dataset)
        assert f".map(lambda number, element: {called}, num_parallel_calls=tf.data.AUTOTUNE)" in source.code
        assert "where autopipe keeps what was given for each number" in source.code
        assert_same(run(source), dataset)

    def test_what_a_scan_begins_with_and_a_folder_are_arguments(self, tmp_path):
        Dataset.range(9).save(str(tmp_path / "saved"))
        loaded = Dataset.load(str(tmp_path / "saved"))

        def add(state, x):
            return state + x, state

        dataset = autopipe.optimize(loaded.scan(tf.constant(3, tf.int64), add).take_while(below_twenty), seconds=0)
        source = written(dataset)
        assert "scan(initial_state, add)" in source.code
        assert ".take_while(below_twenty)" in source.code
        assert str(tmp_path / "saved") in source.unwritten[0]
        assert_same(run(source, loaded, tf.constant(3, tf.int64), add), dataset)

    def test_the_older_interleave_is_written_as_such(self):
        older = tf.data.experimental.parallel_interleave(Dataset.range, 2, block_length=3, sloppy=None)
        dataset = autopipe.optimize(Dataset.range(9).apply(older), seconds=0)
        source = written(dataset)
        assert not source.unwritten
        assert ".apply(tf.data.experimental.parallel_interleave(" in source.code
        assert_same(run(source), dataset)

    def test_knobs_are_written_as_they_are(self):
        dataset = optimized(Dataset.range(9).map(shift), "parallel_map", "prefetch_at_end")
        dataset.retune({"map[shift].num_parallel_calls": 3, "prefetch.buffer_size": 4, "thread_pool.size": 5})
        source = written(dataset)
        assert "map(shift, num_parallel_calls=3)" in source.code
        assert "prefetch(4)" in source.code
        assert "options.threading.private_threadpool_size = 5" in source.code
        assert_same(run(source), dataset)

    def test_what_cannot_be_written_is_named_with_the_users_line_and_becomes_an_argument(self):
        dataset = optimized(Dataset.range(20).map(scale).batch(4), "vectorize_map")
        source = written(dataset)
        (missing,) = source.unwritten
        line = scale.__code__.co_firstlineno
        assert f'the function "vectorized scale" of test_source.py:{line}, which autopipe made' in missing
        assert "by vectorize_map: map(f) | batch(b)  ->  batch(b) | map(vectorized f)" in missing
        assert f"    # Not written: {missing}\n" in source.code
        assert "it takes int64[None] and gives float32[None]" in source.code
        assert_same(run(source, lambda batch: tf.ensure_shape(scale(batch), [None])), dataset)

    def test_a_name_that_is_a_part_of_a_longer_one_is_not_that_of_the_rule(self):
        """The function is "f", which stands in "prefetch" too."""

        def f(x):
            return x + 1

        sides = Dataset.zip({"a": Dataset.range(9), "b": (Dataset.range(9).map(f),)})
        source = written(optimized(sides, "prefetch_at_end"))
        assert not any("prefetch_at_end" in missing for missing in source.unwritten)

    def test_a_generator_becomes_an_argument_and_is_told(self):
        def count():
            yield from range(3)

        given = Dataset.from_generator(count, output_signature=tf.TensorSpec([], tf.int64))
        dataset = autopipe.optimize(given.map(shift).batch(2), seconds=0)
        source = written(dataset)
        (missing,) = source.unwritten
        assert missing.startswith("generator (")
        assert "def make_dataset(source):" in source.code
        assert_same(run(source, given), dataset)


class TestFunctionsOfTheUser:
    def test_one_that_cannot_be_imported_is_an_argument_that_names_its_line(self):
        def inner(x):
            return x * 5

        double = lambda x: x * 2  # noqa: E731
        partial = functools.partial(both, LABELS[1])
        given = Dataset.range(9).map(double).map(inner).map(partial).map(lambda x, y: x + y).map(double)
        dataset = autopipe.optimize(given, seconds=0)
        source = written(dataset)
        assert not source.unwritten
        line = double.__code__.co_firstlineno
        assert (
            f"lambda_test_source_{line}: the lambda of test_source.py:{line}, which cannot be imported" in source.code
        )
        assert source.code.count("the lambda of") == 2
        names = source.code.split("def make_dataset(")[1].split(")")[0].split(", ")
        assert names[1] == "inner"
        assert_same(run(source, double, inner, partial, lambda x, y: x + y), dataset)

    def test_functions_of_one_name_are_imported_under_two(self, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(tmp_path)
        for module, number in (("one_module", 1), ("dataset", 2)):
            (tmp_path / f"{module}.py").write_text(f"def tf(x):\n    return x * 10 + {number}\n")
        import dataset as second
        import one_module as first

        dataset = autopipe.optimize(Dataset.range(3).map(first.tf).map(second.tf), seconds=0)
        try:
            source = written(dataset)
            assert "from dataset import tf as tf_" in source.code
            assert_same(run(source), dataset)
        finally:
            del sys.modules["one_module"], sys.modules["dataset"]

    @pytest.mark.parametrize("name", ["array", "element", "file", "number", "rows"])
    def test_one_with_a_name_that_the_code_gives_is_imported_under_another(self, name, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(SampleMeasurements, "caching", lambda *_, on_disk=False: (1.0, 1e-4))
        monkeypatch.setattr(SampleMeasurements, "whole_speed", lambda *_, **__: (1.0, 1.0, 1.0))
        module = f"names_{name}"
        (tmp_path / f"{module}.py").write_text(
            f"import tensorflow as tf\ndef {name}(x):\n    return tf.strings.as_string(x)\n"
        )
        try:
            called = getattr(importlib.import_module(module), name)
            numbered = Dataset.range(9).shuffle(9, seed=1).take(5).map(called)
            source = written(autopipe.optimize(numbered, rules=["cache_results"]))
            assert f"lambda number, element: {name}_2(element)" in source.code
            assert_same(run(source), numbered)
        finally:
            sys.modules.pop(module, None)

    def test_a_keras_layer_is_an_argument(self):
        import keras

        layer = keras.layers.Rescaling(0.5)
        dataset = autopipe.optimize(Dataset.range(4).batch(2).map(layer), seconds=0)
        source = written(dataset)
        assert not source.unwritten
        assert_same(run(source, layer), dataset)

    def test_one_decorated_with_tf_function_is_imported(self):
        dataset = autopipe.optimize(Dataset.range(4).map(decorated), seconds=0)
        source = written(dataset)
        assert "import decorated\n" in source.code
        assert_same(run(source), dataset)


@tf.function
def decorated(x):
    return x + 3


def test_functions_of_tensorflow_that_group_by_length_are_told_by_their_names():
    grouped = Dataset.range(1, 9).map(tf.range).bucket_by_sequence_length(tf.size, [3], [2, 2])
    source = written(autopipe.optimize(grouped, rules=["prefetch_at_end"]))
    names = [words.removeprefix("the function ").split(" inside of TensorFlow")[0] for words in source.unwritten]
    assert names == ["element_to_bucket_id", "batching_fn", "window_size_fn"]


def test_a_seed_of_the_whole_process_is_told():
    tf.random.set_seed(11)
    try:
        dataset = autopipe.optimize(seeded(3), seconds=0)
    finally:
        from tensorflow.python.eager import context

        context.context()._seed = None
    source = written(dataset)
    assert "# The same order takes tf.random.set_seed(11) before this." in source.code


def test_what_ragged_batch_puts_there_is_told():
    dataset = autopipe.optimize(Dataset.range(4).map(tf.range).ragged_batch(2), seconds=0)
    source = written(dataset)
    assert len(source.unwritten) == 1
