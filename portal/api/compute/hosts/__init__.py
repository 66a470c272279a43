"""Hosts, up to microversion 2.42."""
