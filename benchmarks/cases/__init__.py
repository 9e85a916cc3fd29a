"""The jobs that are measured: one file a letter of the list in ``benchmarks/README.md``."""
