"""Functions that give the same for less work."""
