"""Texts of the pages: names, numbers, times, statuses and messages of errors."""
