"""Floating IPs: the list, the detail page with port forwardings, and association with instances."""
