"""Writes of compute that are no actions on servers: flavors, key pairs, aggregates, groups, tags, consoles."""
