"""Formats that Django uses on pages."""
