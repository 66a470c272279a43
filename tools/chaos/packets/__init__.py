"""Hosts of a chaos run whose networks are real: what their guests' packets do is compared with what the cloud says."""
