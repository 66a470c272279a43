"""The web server: Daphne with streamed bodies, limits for sockets, and one thread for each request."""
