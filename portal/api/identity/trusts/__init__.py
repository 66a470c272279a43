"""Trusts (OS-TRUST), which delegate some of a user's roles to another user."""
