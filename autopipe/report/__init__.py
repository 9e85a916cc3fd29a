"""What is shown to people."""
