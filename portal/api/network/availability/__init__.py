"""Numbers of addresses in networks."""
