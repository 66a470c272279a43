"""Signing in and out, and choosing the project."""
