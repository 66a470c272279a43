"""Measurements inside Django, on a database of their own."""
