"""Records that are larger than the first ones count in what a cache takes."""

import pytest
import tensorflow as tf

import autopipe
from autopipe.pipeline import ir
from autopipe.pipeline.extract import extract
from autopipe.planning.measuring.file_bytes import times_as_large
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.planning.measuring.samples import bytes_of
from sides import apply

Dataset = tf.data.Dataset
SMALL, LARGE = [b"x" * 200] * 200, [b"x" * 20_000] * 200


def growth(dataset):
    return times_as_large(extract(dataset), [bytes_of(each) for each in dataset.take(32)])


def write(folder, *files):
    names = [str(folder / f"{number}.tfrecord") for number in range(len(files))]
    for name, records in zip(names, files, strict=True):
        with tf.io.TFRecordWriter(name) as writer:
            for record in records:
                writer.write(record)
    return names


def wide(record):
    return tf.cast(tf.io.decode_raw(record, tf.uint8), tf.float32)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "read",
    [
        lambda names: tf.data.TFRecordDataset(names),
        lambda names: Dataset.from_tensor_slices(names).interleave(tf.data.TFRecordDataset, cycle_length=1),
        lambda names: tf.data.TFRecordDataset(names).shuffle(50).filter(lambda record: record != ""),
    ],
    ids=["files", "interleave", "filter"],
)
@pytest.mark.parametrize("files", [[[*SMALL, *LARGE]], [SMALL, LARGE]], ids=["one file", "two files"])
def test_a_cache_of_records_that_grow_is_forecast_with_the_last_ones_too(read, files, tmp_path):
    for made in (read(write(tmp_path, *files)).map(wide), read(write(tmp_path, *files)).map(wide).batch(1)):
        taken = sum(map(bytes_of, made))
        assert taken < SampleMeasurements().cache_bytes(extract(made)) < 1.5 * taken


def test_records_that_shrink_are_forecast_by_the_first_ones(tmp_path):
    shrinking = tf.data.TFRecordDataset(write(tmp_path, [*LARGE, *SMALL])).map(wide)
    assert growth(shrinking) == 1
    assert SampleMeasurements().cache_bytes(extract(shrinking)) > 1.5 * sum(map(bytes_of, shrinking))


def test_lines_of_text_grow_as_well(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(["ab"] * 100 + ["ab" * 500] * 100))
    lines = tf.data.TextLineDataset(str(tmp_path / "a.txt"))
    assert 100 < growth(lines.map(tf.strings.upper)) < 300


def test_nothing_is_known_of_what_is_no_record_of_a_file(tmp_path):
    names = write(tmp_path, [*SMALL, *LARGE])
    parsed = Dataset.from_tensor_slices(names).interleave(lambda name: tf.data.TFRecordDataset(name).map(wide))
    compressed = tf.data.TFRecordDataset(names, "GZIP")
    assert growth(parsed) == growth(Dataset.range(9)) == 1
    assert extract(compressed).compression_type == "GZIP"


def test_what_a_reader_makes_of_records_is_not_taken_to_grow_with_them(tmp_path):
    def labels(name):
        return tf.data.TFRecordDataset(name).map(lambda record: tf.strings.substr(record, 0, 2))

    names = Dataset.from_tensor_slices(write(tmp_path, [*SMALL, *LARGE]))
    assert growth(names.interleave(labels)) == 1


@pytest.mark.one_in(2)
@pytest.mark.parametrize("reader", ["interleave", "flat_map"])
def test_records_grow_as_well_where_maps_were_taken_out_of_their_reader(reader, tmp_path):
    names = Dataset.from_tensor_slices(write(tmp_path, [*SMALL, *LARGE]))
    read = getattr(names, reader)(lambda name: tf.data.TFRecordDataset(name).map(wide))
    opened = apply("map_after_interleave", read.cache()).after
    assert isinstance(opened, ir.Cache)
    assert isinstance(opened.input, ir.Map)
    assert 40 < times_as_large(opened.input, [800, 804]) < 60
    cached = autopipe.optimize(read.cache().batch(2), keeps="sequence")
    assert sum(map(bytes_of, cached.unbatch())) == sum(map(bytes_of, read))


def test_what_stands_beside_records_in_a_file_is_no_growth(tmp_path):
    assert growth(tf.data.TFRecordDataset(write(tmp_path, [b"abcd"] * 300))) == 1
    (tmp_path / "a.txt").write_text("ab\n" * 300)
    assert growth(tf.data.TextLineDataset(str(tmp_path / "a.txt"))) == 1


def test_what_is_as_large_for_all_of_a_sample_is_so_for_larger_records_too(tmp_path):
    def fixed(record):
        return tf.ensure_shape(tf.strings.unicode_decode(tf.strings.substr(record, 0, 7), "UTF-8"), [None])

    growing = [b"x" * length for length in range(200, 4_200, 10)]
    made = tf.data.TFRecordDataset(write(tmp_path, growing)).map(fixed)
    taken = sum(map(bytes_of, made))
    assert SampleMeasurements().cache_bytes(extract(made)) < taken + 400 * 400
