"""The ops of TensorFlow by which functions read files."""

__all__ = ["READERS", "READERS_OF_EACH"]

READERS = frozenset(
    "CSVDataset CSVDatasetV2 FixedLengthRecordDataset FixedLengthRecordDatasetV2 TFRecordDataset TFRecordDatasetV2 "
    "TextLineDataset".split()
)
"""Ops of datasets that read files in order, whatever the options; their first input is the names."""

READERS_OF_EACH = frozenset("FlatMapDataset LegacyParallelInterleaveDatasetV2 ParallelInterleaveDatasetV4".split())
"""Ops of datasets that call a function for every name of a list."""
