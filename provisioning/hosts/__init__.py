"""Hosts, and the way to them for every service above: commands, calls, reports, and what their agents say they have."""
