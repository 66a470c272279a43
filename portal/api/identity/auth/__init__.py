"""Tokens, and operations of authenticated users on their own account."""
