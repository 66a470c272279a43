"""Append-only event log. On commit it wakes the live pages, the agents' links and waiting callers."""
