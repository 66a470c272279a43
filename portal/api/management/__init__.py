"""Management commands of the APIs."""
