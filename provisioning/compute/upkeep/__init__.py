"""Periodic work that keeps servers and records in order: overdue tasks, silent hosts, shelved and deleted servers."""
