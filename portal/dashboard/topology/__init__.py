"""The network topology of a project."""
