"""Management commands of the identity API."""
