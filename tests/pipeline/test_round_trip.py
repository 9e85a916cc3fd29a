"""Extract -> build with no rule applied gives the same sequence, for every transformation, in two epochs."""

import gzip

import numpy as np
import pytest
import tensorflow as tf

from autopipe.pipeline import ir, trees
from autopipe.pipeline.build import build
from autopipe.pipeline.extract import extract
from autopipe.pipeline.text import one_line

Dataset = tf.data.Dataset
parallel_interleave = tf.data.experimental.parallel_interleave
AUTOTUNE = tf.data.AUTOTUNE


def numbers(n=20):
    return Dataset.range(n)


def plus_one(x):
    return x + 1


def is_even(x):
    return x % 2 == 0


def up_to(x):
    return Dataset.range(x)


def evenly(x):
    """Of datasets that are shorter than a block, TensorFlow has another order in one run of a hundred."""
    return up_to(2 * x + 2)


def pair(x):
    return {"a": x, "b": (tf.cast(x, tf.float32), tf.strings.as_string(x))}


def twice(dataset):
    return dataset.concatenate(dataset)


def ragged(x):
    return tf.RaggedTensor.from_row_lengths(tf.range(2 * x), [x, x])


def sparse(x):
    return tf.SparseTensor([[x % 3]], [x], [3])


def count_up():
    yield from range(7)


def csv(files, **arguments):
    columns = [tf.int32] * (not {"select_cols", "exclude_cols"} & set(arguments))
    columns += [tf.constant([7.5]), tf.constant(["none"])]
    return tf.data.experimental.CsvDataset(files, columns, **arguments)


def saved(dataset, folder, reader_func=None):
    dataset.save(str(folder))
    return Dataset.load(str(folder), reader_func=reader_func)


def options(**flags):
    made = tf.data.Options()
    for name, value in flags.items():
        setattr(made, name, value)
    return made


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for index in range(3):
        (folder / f"{index}.txt").write_text("".join(f"{index}-{line}\n" for line in range(5)))
        rows = "".join(f'{index};{line};"{line}";\n' for line in range(5 * index))
        (folder / f"{index}.csv").write_text("a,b,c\n" + rows.replace(";\n", "\n").replace(";", ","))
        (folder / f"{index}.csvz").write_bytes(gzip.compress(f"a;b;c;d\n{rows}".encode()))
        with tf.io.TFRecordWriter(str(folder / f"{index}.tfrecord")) as writer:
            for line in range(5):
                writer.write(f"{index}-{line}".encode())
        with tf.io.TFRecordWriter(str(folder / f"{index}.gz"), "GZIP") as writer:
            for line in range(5):
                writer.write(f"{index}-{line}".encode())
    return folder


def names(folder, ending):
    return sorted(str(path) for path in folder.glob(f"*.{ending}"))


PIPELINES = {
    "tensors": lambda f: Dataset.from_tensors({"a": [1, 2], "b": "x"}, name="one"),
    "tensor_slices": lambda f: Dataset.from_tensor_slices((np.arange(6).reshape(3, 2), ["a", "b", "c"])),
    "ragged_slices": lambda f: Dataset.from_tensor_slices(tf.ragged.constant([[1], [2, 3], []])),
    "sparse_slices": lambda f: Dataset.from_tensor_slices(tf.sparse.eye(3)),
    "range": lambda f: Dataset.range(10, 0, -3, output_type=tf.int32),
    "generator": lambda f: Dataset.from_generator(count_up, output_signature=tf.TensorSpec((), tf.int64)),
    "text": lambda f: tf.data.TextLineDataset(names(f, "txt"), buffer_size=100),
    "text_parallel": lambda f: tf.data.TextLineDataset(names(f, "txt"), num_parallel_reads=2),
    "text_autotune": lambda f: tf.data.TextLineDataset(names(f, "txt"), num_parallel_reads=AUTOTUNE),
    "tfrecord": lambda f: tf.data.TFRecordDataset(names(f, "tfrecord"), name="records"),
    "tfrecord_gzip": lambda f: tf.data.TFRecordDataset(names(f, "gz"), "GZIP", 1000, num_parallel_reads=3),
    "fixed_length": lambda f: tf.data.FixedLengthRecordDataset(names(f, "txt"), 4, 2, 2),
    "list_files": lambda f: Dataset.list_files(str(f / "*.txt"), seed=5),
    "list_files_in_order": lambda f: Dataset.list_files(str(f / "*.txt"), shuffle=False),
    "map": lambda f: numbers().map(plus_one, name="increment"),
    "map_synchronous": lambda f: numbers().map(plus_one, synchronous=True),
    "map_structure": lambda f: numbers().map(pair),
    "map_ragged": lambda f: numbers().map(ragged),
    "map_sparse": lambda f: numbers().map(sparse),
    "parallel_map": lambda f: numbers().map(plus_one, num_parallel_calls=2, deterministic=True),
    "parallel_map_autotune": lambda f: numbers().map(plus_one, num_parallel_calls=AUTOTUNE),
    "parallel_map_unbounded": lambda f: numbers().map(plus_one, num_parallel_calls=2, use_unbounded_threadpool=True),
    "seeded_random_map": lambda f: numbers().map(lambda x: tf.random.uniform((), seed=3)),
    "assert_cardinality": lambda f: numbers(9).filter(is_even).apply(tf.data.experimental.assert_cardinality(5)),
    "scan": lambda f: numbers().scan(
        (tf.constant(0, tf.int64), "a"), lambda s, x: ((s[0] + x, s[1] + "b"), pair(s[0]))
    ),
    "scan_of_growing_state": lambda f: numbers(5).scan([0], lambda state, x: (tf.concat([state, [1]], 0), state)),
    "counter": lambda f: Dataset.counter(3, 2).take(4),
    "take_while": lambda f: numbers().take_while(lambda x: x < 7, name="first"),
    "load": lambda f: saved(numbers().map(pair), f / "saved"),
    "load_in_an_order_of_its_own": lambda f: saved(
        numbers(), f / "numbers", lambda each: each.flat_map(lambda x: x).take(7)
    ),
    "filter": lambda f: numbers().filter(is_even, name="evens"),
    "filter_ragged": lambda f: numbers().map(ragged).filter(lambda x: x.nrows() > 1),
    "batch": lambda f: numbers().batch(3, drop_remainder=True),
    "batch_ragged": lambda f: numbers().map(ragged).batch(3),
    "parallel_batch": lambda f: numbers().batch(3, num_parallel_calls=2, deterministic=True),
    "padded_batch": lambda f: (
        numbers()
        .map(lambda x: (tf.fill([x], x), tf.strings.as_string(tf.fill([x], x))))
        .padded_batch(3, padded_shapes=([None], [25]), padding_values=(np.int64(-1), "pad"), drop_remainder=True)
    ),
    "padded_batch_dict": lambda f: numbers().map(lambda x: {"a": tf.fill([x], 1.5)}).padded_batch(4),
    "unbatch": lambda f: numbers().map(pair).batch(4).unbatch(),
    "unbatch_ragged": lambda f: numbers().map(ragged).batch(4).unbatch(),
    "unbatch_sparse": lambda f: numbers().map(sparse).batch(4).unbatch(),
    "shuffle": lambda f: numbers().shuffle(7, seed=11),
    "shuffle_once": lambda f: numbers().shuffle(7, seed=11, reshuffle_each_iteration=False),
    "repeat": lambda f: numbers(3).repeat(4),
    "cache": lambda f: numbers().cache(),
    "cache_file": lambda f: numbers().cache(str(f / "cached")),
    "prefetch": lambda f: numbers().prefetch(2).prefetch(0).prefetch(AUTOTUNE),
    "take_skip_shard": lambda f: numbers().skip(2).take(15).shard(3, 1),
    "take_all": lambda f: numbers().take(-1),
    "zip": lambda f: Dataset.zip((numbers(), {"x": numbers(5).map(pair), "y": (numbers(9),)})),
    "zip_of_one": lambda f: Dataset.zip(numbers()),
    "random": lambda f: Dataset.random(seed=3, name="drawn").take(9),
    "choose_from": lambda f: Dataset.choose_from_datasets([numbers(3), numbers(9)], Dataset.range(2).repeat(7)),
    "choose_until_one_ends": lambda f: Dataset.choose_from_datasets(
        [numbers(3), numbers(9).map(plus_one)], Dataset.range(2).repeat(), stop_on_empty_dataset=True
    ),
    "choose_of_unlike_shapes": lambda f: Dataset.choose_from_datasets(
        [numbers(4).batch(2), numbers(4).batch(2, drop_remainder=True)], Dataset.range(2).repeat()
    ),
    "sample_from": lambda f: Dataset.sample_from_datasets([numbers(5), numbers(9)], [0.3, 0.7], seed=2),
    "sample_by_weights_that_change": lambda f: Dataset.sample_from_datasets(
        [numbers(5), numbers(9)], Dataset.from_tensors([0.5, 0.5]).repeat(), seed=2
    ),
    "concatenate": lambda f: numbers(3).concatenate(numbers(4).map(plus_one)),
    "concatenate_to_itself": lambda f: twice(numbers(9).shuffle(9, seed=4)),
    "concatenate_applied": lambda f: numbers(9).shuffle(9, seed=4).apply(twice),
    "enumerate": lambda f: numbers(5).enumerate(start=7),
    "flat_map": lambda f: numbers(6).flat_map(up_to),
    "interleave": lambda f: numbers(6).interleave(up_to, cycle_length=3, block_length=2),
    "interleave_default": lambda f: numbers(6).interleave(up_to),
    "parallel_interleave": lambda f: numbers(6).interleave(
        up_to, cycle_length=3, block_length=2, num_parallel_calls=2, deterministic=True, name="mix"
    ),
    "legacy_interleave": lambda f: numbers(9).apply(
        parallel_interleave(evenly, cycle_length=4, block_length=2, buffer_output_elements=3, prefetch_input_elements=1)
    ),
    "legacy_interleave_default": lambda f: numbers().apply(parallel_interleave(up_to, cycle_length=1, sloppy=None)),
    "csv": lambda f: csv(names(f, "csv"), header=True),
    "csv_with_everything": lambda f: csv(
        names(f, "csvz"),
        compression_type="GZIP",
        buffer_size=16,
        header=True,
        field_delim=";",
        use_quote_delim=False,
        na_value="1",
        select_cols=[1, 3],
    ),
    "csv_of_one_file": lambda f: csv(names(f, "csv")[1], header=True, exclude_cols=[0]).map(lambda *row: row[1]),
    "made_csv": lambda f: tf.data.experimental.make_csv_dataset(
        names(f, "csv"), 3, num_epochs=2, shuffle_seed=4, num_parallel_reads=2
    ),
    "interleave_of_readers": lambda f: Dataset.from_tensor_slices(names(f, "tfrecord")).interleave(
        tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=AUTOTUNE
    ),
    "options": lambda f: numbers().with_options(options(deterministic=True)).map(plus_one),
    "window_then_map": lambda f: numbers().window(3).flat_map(lambda w: w.batch(3)).map(plus_one),
    "window_of_many": lambda f: numbers().window(4, 2, 3, True, name="w").flat_map(lambda w: w.batch(4)),
    "window_of_pairs": lambda f: numbers().map(pair).window(3).map(lambda d: d["a"]).flat_map(lambda w: w),
    "rebatch": lambda f: numbers().batch(3).rebatch(4, drop_remainder=True),
    "rebatch_ragged": lambda f: numbers().map(ragged).batch(3).rebatch(2, name="two"),
    "rebatch_many": lambda f: numbers().batch(3).rebatch([2, 4]),
    "ignore_errors_loudly": lambda f: numbers().ignore_errors(log_warning=True),
    "ragged_batch": lambda f: (
        numbers()
        .map(lambda x: {"n": x, "v": tf.range(x % 4), "m": tf.fill([2, x % 3], x)})
        .ragged_batch(3, drop_remainder=True)
    ),
    "ragged_batch_of_tuples": lambda f: (
        numbers().map(lambda x: (tf.range(x % 4), x)).ragged_batch(3, row_splits_dtype=tf.int32)
    ),
    "ragged_batch_then_shuffle": lambda f: numbers().ragged_batch(3).shuffle(4, seed=1),
    "group_by_window": lambda f: numbers().group_by_window(lambda x: x % 2, lambda key, w: w.batch(3), 4).take(3),
    "buckets": lambda f: (
        numbers()
        .map(lambda x: {"v": tf.range(x % 7), "n": x})
        .bucket_by_sequence_length(lambda x: tf.shape(x["v"])[0], [3, 5], [4, 3, 2], pad_to_bucket_boundary=False)
        .map(lambda x: x["v"])
    ),
    "ignore_errors": lambda f: (
        numbers()
        .map(lambda x: tf.debugging.check_numerics(1.0 / tf.cast(x % 5, tf.float32), "inf"))
        .ignore_errors()
        .batch(2)
    ),
}


def as_lists(dataset):
    def plain(value):
        if isinstance(value, tf.RaggedTensor):
            return value.to_list()
        if isinstance(value, tf.SparseTensor):
            return tf.sparse.to_dense(value).numpy().tolist()
        return np.asarray(value.numpy()).tolist()

    return [[plain(leaf) for leaf in tf.nest.flatten(element)] for element in dataset]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", PIPELINES)
def test_build_gives_back_the_sequence_that_was_extracted(name, files):
    original = PIPELINES[name](files)
    rebuilt = build(extract(PIPELINES[name](files)))

    assert rebuilt.element_spec == original.element_spec
    assert rebuilt.cardinality() == original.cardinality()
    for _epoch in range(2):
        assert as_lists(rebuilt) == as_lists(original)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", PIPELINES)
def test_the_tree_of_a_rebuilt_transformation_is_opaque_nowhere_it_was_read(name, files):
    tree = extract(PIPELINES[name](files))
    allowed = {"concatenate_applied", "concatenate_to_itself", "rebatch_many"}

    opaque = [node for node in trees.walk(tree) if isinstance(node, ir.Opaque)]

    assert bool(opaque) == (name in allowed), one_line(tree)
