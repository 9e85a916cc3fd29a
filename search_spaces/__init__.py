"""The numbers a search may try: one space, one file."""
