"""Limits and usage: resources are reserved, then committed or released, exactly once."""
