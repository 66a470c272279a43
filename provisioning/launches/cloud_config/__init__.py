"""User data in the format ``#cloud-config``."""
