"""What should change: the machine, what was measured on it, and the plan."""
