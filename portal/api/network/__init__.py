"""Networking API v2.0."""
