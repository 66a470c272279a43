"""Volumes, their snapshots and backups, and transfers."""
