"""Instances: the list, the detail page, and the actions."""
