"""Backups: created, restored, exported and imported."""
