"""The benchmark: what autopipe buys over what a user would write or use instead, side by side in one run."""
