"""This machine: its certificates, usage and uptime, and its connections to volumes."""
