"""Volumes: records, rules and pools. Their data is stored by hosts."""
