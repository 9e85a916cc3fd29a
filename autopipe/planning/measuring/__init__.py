"""Answers about a pipeline that come from running it on some of the user's own elements."""
