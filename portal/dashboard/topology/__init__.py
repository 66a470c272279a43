"""The picture of a project's networks."""
