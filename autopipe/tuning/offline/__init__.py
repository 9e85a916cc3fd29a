"""Tuning before training: a consumer stands in for the model, in one process or in many."""
