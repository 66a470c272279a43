"""Routers: the list, the detail page with interfaces and routes, and the actions."""
