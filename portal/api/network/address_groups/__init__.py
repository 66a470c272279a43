"""Address groups."""
