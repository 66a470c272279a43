"""Routers, their interfaces and gateways."""
