"""Roles: which of them apply, how far they reach, and who may assign them."""
