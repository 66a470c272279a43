"""Novella's own operations that explain where servers are placed."""
