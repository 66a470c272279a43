"""Inventory and resource audit of this host."""
