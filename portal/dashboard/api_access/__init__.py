"""Where the services are, and how programs sign in."""
