"""Periodic jobs, and time in which none ran."""
