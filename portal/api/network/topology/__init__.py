"""Auto-allocated topology: a network and a router for a project."""
