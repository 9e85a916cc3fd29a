"""Other loaders that a user would pick instead, on the flower job: one file a loader."""
