"""Servers on this host: the handlers of their commands, and the host's data and reports about its guests."""
