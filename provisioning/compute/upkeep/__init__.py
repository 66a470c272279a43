"""Periodic maintenance of servers and records: overdue tasks, silent hosts, shelved and deleted servers."""
