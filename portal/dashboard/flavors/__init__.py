"""Flavors; operators create and delete them."""
