"""Reports of hosts and of other services about servers."""
