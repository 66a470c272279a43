"""Checks of a run: its answers, its records, its guests and its logs."""
