"""The cores and the memory there really are, and what becomes of the memory."""
