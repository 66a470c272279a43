"""Volumes: records, rules and pools; their data lies with hosts."""
