"""Domains, projects, users, groups and limits for administrators: lists, and look-ups by id."""
