"""Where the caches of an optimized dataset keep their elements, and what iterators run until those are full."""
