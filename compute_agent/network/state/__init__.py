"""The wanted state of the host's network, and what is stored of it on disk."""
