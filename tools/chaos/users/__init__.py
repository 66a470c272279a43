"""Users of a chaos run: they send single requests to an API or the dashboard."""
