"""Records beside the networking resources, for hosts and listeners."""
