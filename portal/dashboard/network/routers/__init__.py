"""Routers: the list, one with its interfaces and routes, and what is done to them."""
