"""What the stages of a pipeline cost, which of them limits it, and how fast it can be."""
