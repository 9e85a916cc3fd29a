"""What a pipeline is: read from a dataset, shown as text, built into a dataset again."""
