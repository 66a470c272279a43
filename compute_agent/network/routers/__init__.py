"""Routers of this host: a namespace for each router, and one for each external network of a router."""
