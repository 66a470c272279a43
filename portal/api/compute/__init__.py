"""Compute API v2.1."""
