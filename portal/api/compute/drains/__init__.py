"""Drains of hosts: Novella's own Compute operations."""
