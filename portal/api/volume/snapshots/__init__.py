"""Snapshots and their actions."""
