"""Periodic work on volumes and backups."""
