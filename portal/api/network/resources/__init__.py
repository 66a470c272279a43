"""The resources of the Networking API, each declared in one module."""
