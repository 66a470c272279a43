"""The engine of all lists."""
