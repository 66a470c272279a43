"""Search over everything: resources, pages and actions."""
