"""The launch wizard."""
