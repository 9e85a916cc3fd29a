"""What the functions are called on, and state that some of them share."""

import numpy as np
import tensorflow as tf

Dataset = tf.data.Dataset
_RNG = np.random.default_rng(0)
SIDE = 16
COUNT = 4
IMAGES = _RNG.integers(0, 256, (COUNT, SIDE, SIDE, 3)).astype("float32")
LABELS = np.arange(COUNT, dtype="int64") % 3
SOUND = _RNG.normal(size=(COUNT, 256)).astype("float32")
LINES = ["a bc a", "the end", "", "bc the d\u00e9 zz"]
WORDS = ["a", "bc", "the", "end"]
NUMBERS = _RNG.normal(size=(COUNT, 4)).astype("float32")
IDS = np.array([3, 1, 0, 2], "int64")
CSV = [f"{number / 4},{word},{number}" for number, word in enumerate(WORDS)]
JPEGS = [tf.io.encode_jpeg(image.astype("uint8")).numpy() for image in IMAGES]
PNGS = [tf.io.encode_png(image.astype("uint8")).numpy() for image in IMAGES]
WAVS = [tf.audio.encode_wav(np.tanh(sound)[:, None], 8000).numpy() for sound in SOUND]


def _table(keys, values):
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)


TABLE = _table(WORDS, tf.range(4, dtype=tf.int64))
BUCKETS = _table(tf.range(4, dtype=tf.int64), tf.constant([0, 0, 1, 1]))
SCALE = tf.Variable(2.0)
GENERATOR = tf.random.Generator.from_seed(5)
FREE_GENERATOR = tf.random.Generator.from_non_deterministic_state()
MEAN = tf.constant([120.0, 110.0, 100.0])


def _bytes(*values):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def _record(index):
    mask = (IMAGES[index, :, :, :1] > 128).astype("uint8")
    features = {
        "image": _bytes(JPEGS[index]),
        "mask": _bytes(tf.io.encode_png(mask).numpy()),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[index])),
        "tags": _bytes(*[word.encode() for word in WORDS[:index]]),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


RECORDS = [_record(index) for index in range(COUNT)]


def images(function):
    return Dataset.from_tensor_slices(IMAGES).map(function)


def labelled(function):
    return Dataset.from_tensor_slices((IMAGES, LABELS)).map(function)


def batches(function):
    return Dataset.from_tensor_slices((IMAGES, LABELS)).batch(2).map(function)


def lines(function):
    return Dataset.from_tensor_slices(LINES).map(function)


def words(function):
    return Dataset.from_tensor_slices(WORDS).map(function)


def ids(function):
    return Dataset.from_tensor_slices(IDS).map(function)


def batches_of_ids(function):
    return Dataset.from_tensor_slices(IDS).batch(2).map(function)


def numbers(function):
    return Dataset.from_tensor_slices(NUMBERS).map(function)


def sounds(function):
    return Dataset.from_tensor_slices(SOUND).map(function)
