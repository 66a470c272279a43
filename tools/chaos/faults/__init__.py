"""Faults of a plan, and the repairs after them."""
