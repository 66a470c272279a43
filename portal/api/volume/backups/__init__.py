"""Backups (Block Storage API v3 reference, "Backups")."""
