"""Domains, projects, users, groups and limits for those who administer them: lists, and one by its id."""
