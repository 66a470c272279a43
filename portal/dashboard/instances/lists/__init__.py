"""The list of instances, and its rows."""
