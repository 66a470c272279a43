"""Shared by all parts of the cloud: the request context, the base classes of errors, and database helpers."""
