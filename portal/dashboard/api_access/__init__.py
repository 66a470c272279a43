"""Addresses of the services, and credentials for programs."""
