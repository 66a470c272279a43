"""Records for hosts and listeners, in addition to the networking resources."""
