"""Reports for users."""
