"""What is known of a function from its graph, without running it."""
