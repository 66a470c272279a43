"""Append-only log of what happened; wakes the live pages, the agents' links and waiting callers on commit."""
