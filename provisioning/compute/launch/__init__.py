"""A launch in running order, from the request to the order to a host, and what follows a failure."""
