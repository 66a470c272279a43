"""Servers on this host: the handlers of their commands, and what the host knows and reports of its guests."""
