"""Subnets."""
