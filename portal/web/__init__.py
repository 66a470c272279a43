"""The web server: Daphne with bodies that stream, sockets with bounds, and one thread for each request."""
