"""Instances: the list, one in detail, and what can be done to them."""
