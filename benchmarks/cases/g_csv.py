"""CSV files: lines decoded, strings looked up in a Keras layer, numbers normalized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.cases._base import Case

_LINES = 50_000
_FILES = 5
_BATCH = 128
_SHUFFLED = 1000
_CITIES = ("Bern", "Lima", "Oslo", "Quito", "Riga", "Rome", "Seoul", "Tunis")
_HEADER = "age,income,distance,score,city,bought"
_DEFAULTS: list[Any] = [0.0, 0.0, 0.0, 0.0, "", 0]
_MEANS = (50.0, 4000.0, 20.0, 0.0)
_DEVIATIONS = (15.0, 900.0, 8.0, 1.0)
_AUTOTUNE = tf.data.AUTOTUNE


def make_data(folder: Path, lines: int = _LINES) -> list[str]:
    """Write the files, each with a header; return their names."""
    draw = np.random.default_rng(0)
    numbers = draw.normal(_MEANS, _DEVIATIONS, size=(lines, len(_MEANS))).round(3)
    cities, bought = draw.choice(_CITIES, size=lines), draw.integers(0, 2, size=lines)
    rows = [
        ",".join([*map(str, row), city, str(label)])
        for row, city, label in zip(numbers.tolist(), cities.tolist(), bought.tolist(), strict=True)
    ]
    files = [folder / f"{number}.csv" for number in range(_FILES)]
    for number, file in enumerate(files):
        file.write_text("\n".join([_HEADER, *rows[number::_FILES]]) + "\n")
    return [str(file) for file in files]


def naive(files: list[str]) -> Any:
    """Decode every line, then look up, then normalize, then shuffle and batch."""
    lines = tf.data.Dataset.from_tensor_slices(files).flat_map(_lines)
    rows = lines.map(_decode).map(_look_up(_lookup())).map(_normalize)
    return rows.shuffle(_SHUFFLED).batch(_BATCH)


def expert(files: list[str]) -> Any:
    """Follow the guide: read files in parallel, cache prepared rows, then shuffle."""
    lines = tf.data.Dataset.from_tensor_slices(files).interleave(
        _lines, cycle_length=_FILES, num_parallel_calls=_AUTOTUNE
    )
    rows = lines.map(_decode, _AUTOTUNE).map(_look_up(_lookup()), _AUTOTUNE).map(_normalize, _AUTOTUNE)
    return rows.cache().shuffle(_SHUFFLED).batch(_BATCH).prefetch(_AUTOTUNE)


def best(files: list[str]) -> Any:
    """Shuffle and batch the lines, and do the rest in one function on a batch of them."""
    look_up = _look_up(_lookup())
    lines = tf.data.Dataset.from_tensor_slices(files).flat_map(_lines).cache()
    batches = lines.shuffle(_SHUFFLED).batch(_BATCH)
    return batches.map(lambda batch: _normalize(*look_up(*_decode(batch))), _AUTOTUNE).prefetch(_AUTOTUNE)


def _lines(file: Any) -> Any:
    """Return the lines of a file below its header."""
    return tf.data.TextLineDataset(file).skip(1)


def _lookup() -> Any:
    """Return the layer that numbers the cities."""
    return keras.layers.StringLookup(vocabulary=_CITIES)


def _decode(line: Any) -> Any:
    """Take one line or many apart."""
    *numbers, city, bought = tf.io.decode_csv(line, _DEFAULTS)
    return tf.stack(numbers, axis=-1), city, bought


def _look_up(lookup: Any) -> Any:
    """Return the function that replaces a city by its number."""
    return lambda numbers, city, bought: (numbers, lookup(city), bought)


def _normalize(numbers: Any, city: Any, bought: Any) -> Any:
    """Make the numbers comparable, and name the parts."""
    return {"numbers": (numbers - tf.constant(_MEANS)) / tf.constant(_DEVIATIONS), "city": city}, bought


CASES: tuple[Case, ...] = (
    Case(
        letter="g",
        name="csv",
        title="CSV files with a string lookup",
        unit="lines",
        make_data=make_data,
        naive=naive,
        expert=expert,
        best=best,
        units_per_epoch=lambda files: sum(len(Path(file).read_text().splitlines()) - 1 for file in files),
    ),
)
