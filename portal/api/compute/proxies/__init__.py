"""Deprecated and removed parts of the Compute API: proxies of other services, and operations that are only refused."""
