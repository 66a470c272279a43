"""The overview of the project."""
