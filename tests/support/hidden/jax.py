"""Stands in front of the package of this name, for what imports it only where it is installed."""

raise ImportError("hidden from what the tests start: see tests/support/hiding.py")
