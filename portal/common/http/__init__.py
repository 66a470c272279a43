"""Requests and responses of all faces: addresses, ids, routing, limits, statuses and security headers."""
