"""Servers and what belongs to them."""
