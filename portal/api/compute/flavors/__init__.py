"""Flavors, their extra specs and their access lists."""
