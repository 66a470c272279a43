"""Volumes, their snapshots and backups, and handing them over."""
