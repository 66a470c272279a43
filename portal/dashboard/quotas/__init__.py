"""Quotas and usage of a project: shown to all users, changed by operators."""
