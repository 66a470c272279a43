"""Backups of volumes: their data is sent to the portal's store and restored from it."""
