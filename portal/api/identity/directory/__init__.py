"""Domains, projects, users and groups."""
