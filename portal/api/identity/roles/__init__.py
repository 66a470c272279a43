"""Roles, what they imply, and who has them."""
