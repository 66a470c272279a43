"""Floating IPs: the list, one with its port forwardings, and leading them to instances."""
