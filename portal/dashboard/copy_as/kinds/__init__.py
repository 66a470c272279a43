"""The kinds of calls, by service."""
