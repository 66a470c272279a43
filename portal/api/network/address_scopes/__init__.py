"""Address scopes."""
