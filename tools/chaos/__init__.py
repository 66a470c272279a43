"""bin/chaos: random operations on a simulated cloud while its processes, its database and its network fail."""
