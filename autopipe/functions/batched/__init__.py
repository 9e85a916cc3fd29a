"""What a function does with one element, done with a batch of elements."""
