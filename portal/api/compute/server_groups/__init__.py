"""Server groups."""
