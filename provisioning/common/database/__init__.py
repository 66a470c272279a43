"""Connections, transactions and queries on both databases."""
