"""A project's own network and router, made in one go."""
