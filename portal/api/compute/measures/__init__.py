"""Measures: Novella's own Compute operations."""
