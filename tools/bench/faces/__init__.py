"""Measurements of single faces over HTTP: pages, the EC2 API, tokens."""
