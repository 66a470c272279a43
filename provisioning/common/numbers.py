"""The range of whole numbers that are kept, and units."""

MAX_INTEGER = 2_147_483_647
"""The largest number that a column for whole numbers holds, and the largest that OpenStack's schemas take."""
GIB = 1 << 30
"""Bytes."""
