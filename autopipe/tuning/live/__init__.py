"""Tuning inside training: searches while ``fit`` goes on, and changes to the iterators it reads."""
