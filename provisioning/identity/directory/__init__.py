"""Domains, projects, users and groups for those who administer them: lists, and one by its id."""
