"""Examinations: they run the checks and repairs, and store reports."""
