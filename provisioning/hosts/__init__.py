"""Hosts and communication with them, for all services above: commands, calls, reports and audits."""
