"""Parsing, encoding and checks of single values."""
