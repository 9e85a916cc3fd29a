"""Caches that are kept between runs, and what tells that their elements are still the same."""
