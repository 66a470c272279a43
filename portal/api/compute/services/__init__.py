"""Compute services."""
