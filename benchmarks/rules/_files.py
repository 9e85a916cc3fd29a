"""Files that several cases read."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks.rules._base import folder_until_end

__all__ = ["compressed_records", "csv_file"]

_FILES = 40
_RECORDS = 50
_BYTES = 32_768
_ROWS = 20_000
_COLUMNS = 8


@lru_cache(maxsize=1)
def compressed_records() -> list[str]:
    """Return the names of GZIP files of records, as large data sets are often stored; taking them apart costs CPU."""
    folder = Path(folder_until_end())
    draw = np.random.default_rng(0)
    for number in range(_FILES):
        with tf.io.TFRecordWriter(str(folder / f"{number}.gz"), "GZIP") as writer:
            for _ in range(_RECORDS):
                writer.write(draw.integers(0, 32, _BYTES, dtype=np.uint8).tobytes())
    return sorted(str(path) for path in folder.iterdir())


@lru_cache(maxsize=1)
def csv_file() -> str:
    """Return the name of a file with a table of numbers and one column of text."""
    file = Path(folder_until_end()) / "rows.csv"
    numbers = np.random.default_rng(0).random((_ROWS, _COLUMNS))
    names = ",".join(f"number_{column}" for column in range(_COLUMNS))
    rows = (",".join([*(f"{number:.6f}" for number in row), f"row {place}"]) for place, row in enumerate(numbers))
    file.write_text("\n".join([f"{names},text", *rows]))
    return str(file)
