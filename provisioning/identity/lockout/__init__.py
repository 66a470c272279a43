"""Limits for password guessing: by account, and by name and address."""
