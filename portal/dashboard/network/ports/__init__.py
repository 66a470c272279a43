"""Ports: their addresses, security groups and other attributes."""
