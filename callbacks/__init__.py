"""Keras callbacks: one callback, one file."""
