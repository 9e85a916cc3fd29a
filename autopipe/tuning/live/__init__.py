"""Tuning inside training: searches while ``fit`` runs, and changes to the iterators it reads."""
