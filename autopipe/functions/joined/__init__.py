"""Several functions in one: one after the other, side by side, or in place of a call."""
