"""The plan: how the best one is chosen, stored, and applied again."""
