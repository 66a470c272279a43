"""Volumes and their actions."""
