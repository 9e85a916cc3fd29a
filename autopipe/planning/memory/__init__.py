"""The cores and memory that are really available, and what happens to freed memory."""
