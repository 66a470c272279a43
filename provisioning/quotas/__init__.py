"""Limits and usage: reserve, then commit or release, exactly once."""
