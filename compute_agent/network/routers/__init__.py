"""Routers of this host: a namespace for each, and one for each external network that they are connected to."""
