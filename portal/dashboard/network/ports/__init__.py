"""Ports: their addresses, security groups and what else may be changed of them."""
