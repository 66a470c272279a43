"""Servers on this host: the handlers of their commands, and what the host knows and tells of its guests."""
