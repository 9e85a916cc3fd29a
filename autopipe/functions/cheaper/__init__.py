"""Functions that give the same results for less work."""
