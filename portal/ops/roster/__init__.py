"""Rosters: CSV files with users and projects, which operators import."""
