"""Moves of servers between hosts: the choice of the target, and the two allocations and the record of a move."""
