"""Volumes and snapshots: created from their sources, filled, copied to images, and deleted."""
