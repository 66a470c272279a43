"""Roles, implied roles and role assignments."""
