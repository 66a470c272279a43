"""The project at a glance."""
