"""Credentials for programs."""
