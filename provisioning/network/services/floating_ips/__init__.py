"""Floating IPs and port forwardings."""
