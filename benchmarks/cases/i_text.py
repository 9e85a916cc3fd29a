"""Lines of text with labels: vectorize, sort into buckets by length, pad each batch to its bucket's boundary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.cases._base import Case

_LINES = 25_000
_WORDS = tuple(f"word{number}" for number in range(5_000))
_BOUNDARIES = (17, 33, 65, 129)
_BATCHES = (128, 64, 32, 16, 16)
_AT_ONCE = 2**20
_SHUFFLED = 2000
_AUTOTUNE = tf.data.AUTOTUNE


def make_data(folder: Path, lines: int = _LINES) -> str:
    """Write a file of lines such as ``1<tab>word7 word42``, each of up to 128 words, most of few."""
    draw = np.random.default_rng(0)
    lengths = np.clip(draw.lognormal(3.3, 0.7, size=lines).astype(int), 4, 128)
    file = folder / "lines.tsv"
    with file.open("w") as out:
        for length, label in zip(lengths, draw.integers(0, 2, size=lines), strict=True):
            words = draw.integers(0, len(_WORDS), size=length)
            out.write(f"{label}\t{' '.join(_WORDS[word].title() for word in words)}\n")
    return str(file)


def naive(file: str) -> Any:
    """Do one step per map, line by line."""
    vectorize = _vectorizer()
    lines = tf.data.TextLineDataset(file).map(_split).map(lambda text, label: (vectorize(text), label))
    return _bucket(lines.shuffle(_SHUFFLED))


def expert(file: str) -> Any:
    """Follow the guide: the same in parallel, and a cache after the costly step."""
    vectorize = _vectorizer()
    lines = tf.data.TextLineDataset(file).map(_split, num_parallel_calls=_AUTOTUNE)
    tokens = lines.map(lambda text, label: (vectorize(text), label), num_parallel_calls=_AUTOTUNE).cache()
    return _bucket(tokens.shuffle(_SHUFFLED)).prefetch(_AUTOTUNE)


def best(file: str) -> Any:
    """Vectorize and cache all lines at once (a million, were there so many); shuffle and gather rows of each bucket."""
    vectorize = _vectorizer(ragged=True)

    def vectorize_batch(lines: Any) -> Any:
        fields = tf.strings.split(lines, "\t", maxsplit=1).to_tensor(shape=(None, 2))
        return vectorize(fields[:, 1]), tf.strings.to_number(fields[:, 0], tf.int32)

    lines = tf.data.TextLineDataset(file).batch(_AT_ONCE).map(vectorize_batch, num_parallel_calls=_AUTOTUNE)
    return lines.cache().flat_map(_gather_buckets).prefetch(_AUTOTUNE)


def _gather_buckets(tokens: Any, labels: Any) -> Any:
    """Return batches of all buckets, mixed."""
    lengths = tokens.row_lengths()
    buckets = tf.searchsorted(tf.constant(_BOUNDARIES, tf.int64), lengths, side="right")

    def gather_bucket(number: int) -> Any:
        rows = tf.where(buckets == number)[:, 0]
        shuffled = tf.data.Dataset.from_tensor_slices(rows).shuffle(_SHUFFLED).batch(_BATCHES[number])
        shape = (None, _BOUNDARIES[number] - 1)
        return shuffled.map(
            lambda rows: (tf.gather(tokens, rows).to_tensor(shape=shape), tf.gather(labels, rows)), _AUTOTUNE
        )

    numbers = range(len(_BOUNDARIES))
    shares = [tf.reduce_mean(tf.cast(buckets == number, tf.float32)) / _BATCHES[number] for number in numbers]
    return tf.data.Dataset.sample_from_datasets(
        [gather_bucket(number) for number in numbers], tf.stack(shares) / tf.add_n(shares)
    )


def _vectorizer(ragged: bool = False) -> Any:
    """Return a layer that turns words into numbers."""
    return tf.keras.layers.TextVectorization(vocabulary=list(_WORDS), ragged=ragged)


def _split(line: Any) -> Any:
    """Take a line apart."""
    fields = tf.strings.split(line, "\t", maxsplit=1)
    return fields[1], tf.strings.to_number(fields[0], tf.int32)


def _bucket(lines: Any) -> Any:
    """Batch lines of like length."""
    return lines.bucket_by_sequence_length(
        lambda tokens, label: tf.shape(tokens)[0], list(_BOUNDARIES), list(_BATCHES), pad_to_bucket_boundary=True
    )


def count_lines(file: str) -> int:
    """Return how many lines there are."""
    return len(Path(file).read_text().splitlines())


CASES: tuple[Case, ...] = (
    Case(
        letter="i",
        name="text",
        title="lines of text, vectorized and bucketed by length",
        unit="lines",
        make_data=make_data,
        naive=naive,
        expert=expert,
        best=best,
        units_per_epoch=count_lines,
    ),
)
