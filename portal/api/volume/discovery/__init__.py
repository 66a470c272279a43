"""Versions, extensions, zones and filters."""
