"""Domains, projects, users, roles and tokens."""
