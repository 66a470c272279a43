"""Tokens, and what signed-in users learn about and do for themselves."""
