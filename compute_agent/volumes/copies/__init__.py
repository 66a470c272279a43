"""Copies of volumes and disks, on one host and between two."""
