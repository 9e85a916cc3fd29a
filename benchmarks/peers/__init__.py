"""Other loaders that a user would pick instead, on the flower job or the ImageNet job: one file a loader."""
