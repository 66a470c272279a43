"""Tempest: its configuration, its tests, and their results."""
