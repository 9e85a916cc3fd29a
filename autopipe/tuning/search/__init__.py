"""The search: Optuna proposes numbers, and each proposal is measured against the best so far."""
