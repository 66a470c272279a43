"""Secrets with which programs sign in."""
