"""The wanted state of the host's network, and the files that store it."""
