"""Caches that are kept between runs, and what shows that their elements are still the same."""
