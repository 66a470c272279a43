"""Security groups, their rules and address groups."""
