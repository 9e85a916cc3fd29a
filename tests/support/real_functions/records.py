"""Functions that decode, and those of text, tables of numbers and sound."""

import tensorflow as tf

from real_functions.data import BUCKETS, CSV, JPEGS, PNGS, RECORDS, TABLE, WAVS, lines, numbers, sounds

Dataset = tf.data.Dataset


def decode_jpeg(contents):
    image = tf.image.resize(tf.io.decode_jpeg(contents, channels=3), (8, 8))
    return tf.ensure_shape(tf.keras.applications.imagenet_utils.preprocess_input(image), (8, 8, 3))


def decode_any(contents):
    image = tf.io.decode_image(contents, channels=3, expand_animations=False)
    return tf.image.convert_image_dtype(tf.image.resize_with_pad(image, 8, 8) / 255, tf.float16)


def decode_random_crop(contents):
    image = tf.io.decode_jpeg(contents, channels=3)
    return tf.image.random_flip_left_right(tf.image.random_crop(image, (8, 8, 3), seed=1), seed=2)


def segmentation(serialized):
    features = {"image": tf.io.FixedLenFeature([], tf.string), "mask": tf.io.FixedLenFeature([], tf.string)}
    parsed = tf.io.parse_single_example(serialized, features)
    image = tf.image.resize(tf.io.decode_jpeg(parsed["image"], channels=3), (8, 8)) / 255.0
    mask = tf.image.resize(tf.io.decode_png(parsed["mask"], channels=1), (8, 8), "nearest")
    flip = tf.random.uniform((), seed=1) > 0.5
    return tf.cond(flip, lambda: (image[:, ::-1], mask[:, ::-1]), lambda: (image, mask))


def tagged(serialized):
    features = {"label": tf.io.FixedLenFeature([], tf.int64), "tags": tf.io.VarLenFeature(tf.string)}
    parsed = tf.io.parse_single_example(serialized, features)
    tags = TABLE.lookup(tf.sparse.to_dense(parsed["tags"], default_value=""))
    return tf.reduce_max(tf.one_hot(tags, 5), 0), parsed["label"]


def ragged_tags(serialized):
    return tf.io.parse_single_example(serialized, {"tags": tf.io.RaggedFeature(tf.string)})["tags"]


def tokenize(line):
    tokens = tf.strings.split(tf.strings.regex_replace(tf.strings.lower(line), "[^a-z ]", ""))
    found = TABLE.lookup(tokens)[:5]
    return tf.ensure_shape(tf.pad(found, [[0, 5 - tf.size(found)]], constant_values=-1), (5,))


def tokenize_words(line):
    return tf.strings.unicode_split(tf.strings.split(line), "UTF-8")


def tokenize_dense(line):
    return tf.strings.split([line], " ").to_tensor("", shape=(1, 4))[0]


def n_grams(line):
    return tf.strings.ngrams(tf.strings.split(line), 2, separator="_")


def masked_tokens(line):
    tokens = tokenize(line)
    hidden = (tf.random.uniform((5,), seed=5) < 0.3) & (tokens >= 0)
    return tf.where(hidden, tf.constant(99, tf.int64), tokens), {"labels": tf.where(hidden, tokens, -100)}


def length_key(line):
    length = tf.strings.length(line, unit="UTF8_CHAR")
    return BUCKETS.lookup(tf.cast(tf.minimum(length // 4, 3), tf.int64)), line


def next_letters(line):
    codes = tf.strings.unicode_decode(tf.strings.join([line, "padding"]), "UTF-8")[:8]
    return codes[:-1], codes[1:]


def decode_csv(line):
    number, word, label = tf.io.decode_csv(line, [0.0, "", 0])
    return {"number": tf.math.log1p(number), "word": TABLE.lookup(word)}, tf.one_hot(label, 4)


def split_csv(line):
    fields = tf.strings.split(line, ",")
    return tf.strings.to_number(fields[0]), TABLE.lookup(fields[1])


def features(row):
    crossed = tf.reshape(row[:, None] * row[None], [-1])
    return tf.concat([row, crossed, tf.sin(row), tf.cast(tf.math.top_k(row, 2).indices, tf.float32)], 0)


def bucketized(row):
    return tf.searchsorted([-1.0, 0.0, 1.0], row), tf.raw_ops.Bucketize(input=row, boundaries=[0.0])


def mock_sparse(row):
    return tf.sparse.from_dense(tf.where(row > 0, row, 0))


def windows(row):
    return tf.signal.frame(row, 2, 1), tf.math.cumsum(row)


def spectrogram(sound):
    return tf.math.log(tf.abs(tf.signal.stft(sound, 64, 32)) + 1e-6)


def mfcc(sound):
    power = tf.square(tf.abs(tf.signal.stft(sound, 64, 32)))
    mel = tf.signal.linear_to_mel_weight_matrix(8, 33, 800, 20.0, 380.0)
    return tf.signal.mfccs_from_log_mel_spectrograms(tf.math.log(tf.matmul(power, mel) + 1e-6))[..., :4]


def decode_wav(contents):
    sound, rate = tf.audio.decode_wav(contents, 1, 200)
    return spectrogram(sound[:, 0]), rate


def mask_spectrum(sound):
    made = spectrogram(sound)
    start = tf.random.uniform((), 0, 20, tf.int32)
    columns = tf.range(33)
    return tf.where((columns >= start) & (columns < start + 8), 0.0, made)


def shifted_sound(sound):
    return tf.roll(sound, tf.random.uniform((), 0, 64, tf.int32, seed=8), 0) + tf.random.normal((256,), seed=9)


RECORD_FUNCTIONS = {
    "wrapping cast": lambda: numbers(lambda row: tf.cast(row[0] * 300.0, tf.uint8)),
    "decode jpeg": lambda: Dataset.from_tensor_slices(JPEGS).map(decode_jpeg),
    "decode any": lambda: Dataset.from_tensor_slices([*JPEGS[:2], *PNGS[2:]]).map(decode_any),
    "decode and crop": lambda: Dataset.from_tensor_slices(JPEGS).map(decode_random_crop),
    "segmentation records": lambda: Dataset.from_tensor_slices(RECORDS).map(segmentation),
    "tagged records": lambda: Dataset.from_tensor_slices(RECORDS).map(tagged),
    "ragged records": lambda: Dataset.from_tensor_slices(RECORDS).map(ragged_tags),
    "tokenize": lambda: lines(tokenize),
    "tokenize letters": lambda: lines(tokenize_words),
    "tokenize dense": lambda: lines(tokenize_dense),
    "n-grams": lambda: lines(n_grams),
    "masked tokens": lambda: lines(masked_tokens),
    "length key": lambda: lines(length_key),
    "next letters": lambda: lines(next_letters),
    "decode csv": lambda: Dataset.from_tensor_slices(CSV).map(decode_csv),
    "split csv": lambda: Dataset.from_tensor_slices(CSV).map(split_csv),
    "features": lambda: numbers(features),
    "bucketized": lambda: numbers(bucketized),
    "sparse": lambda: numbers(mock_sparse),
    "windows": lambda: numbers(windows),
    "spectrogram": lambda: sounds(spectrogram),
    "mfcc": lambda: sounds(mfcc),
    "decode wav": lambda: Dataset.from_tensor_slices(WAVS).map(decode_wav),
    "masked spectrum": lambda: sounds(mask_spectrum),
    "shifted sound": lambda: sounds(shifted_sound),
}
