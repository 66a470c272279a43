"""Endpoints for agents: the link, the host's ends of consoles, and the data of images and backups."""
