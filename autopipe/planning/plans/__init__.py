"""The plan: which one is best, how it is stored, and how it is applied again."""
