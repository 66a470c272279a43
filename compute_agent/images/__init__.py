"""The host's image cache."""
