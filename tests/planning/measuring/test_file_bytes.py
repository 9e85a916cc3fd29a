"""Records that are larger than the first ones count in what a cache takes."""

import pytest
import tensorflow as tf

from autopipe.pipeline.extract import extract
from autopipe.planning.measuring.file_bytes import times_as_large
from autopipe.planning.measuring.measure import SampleMeasurements
from autopipe.planning.measuring.samples import bytes_of

Dataset = tf.data.Dataset
SMALL, LARGE = [b"x" * 200] * 200, [b"x" * 20_000] * 200


def write(folder, *files):
    names = [str(folder / f"{number}.tfrecord") for number in range(len(files))]
    for name, records in zip(names, files, strict=True):
        with tf.io.TFRecordWriter(name) as writer:
            for record in records:
                writer.write(record)
    return names


def wide(record):
    return tf.cast(tf.io.decode_raw(record, tf.uint8), tf.float32)


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
    assert times_as_large(extract(shrinking), 32) == 1
    assert SampleMeasurements().cache_bytes(extract(shrinking)) > 1.5 * sum(map(bytes_of, shrinking))


def test_lines_of_text_grow_as_well(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(["ab"] * 100 + ["ab" * 500] * 100))
    lines = tf.data.TextLineDataset(str(tmp_path / "a.txt"))
    assert 100 < times_as_large(extract(lines.map(tf.strings.upper)), 32) < 300


def test_nothing_is_known_of_what_is_no_record_of_a_file(tmp_path):
    names = write(tmp_path, [*SMALL, *LARGE])
    parsed = Dataset.from_tensor_slices(names).interleave(lambda name: tf.data.TFRecordDataset(name).map(wide))
    compressed = tf.data.TFRecordDataset(names, "GZIP")
    assert times_as_large(extract(parsed), 32) == times_as_large(extract(Dataset.range(9)), 9) == 1
    assert extract(compressed).compression_type == "GZIP"
