"""The optimized dataset as it is read: its iterators, live retuning, and where caches keep their elements."""
