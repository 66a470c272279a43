"""Flavors: what sizes there are; operators make and remove them."""
