"""Ports, their addresses, and interfaces of guests."""
