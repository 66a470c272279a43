"""Volumes and their snapshots."""
