"""Recounts of the records, and their differences from the counters."""
