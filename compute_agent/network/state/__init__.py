"""The desired state of the host's network, and the files that store it."""
