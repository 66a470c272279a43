"""The range of stored integers, and units."""

MAX_INTEGER = 2_147_483_647
"""Maximum of integer columns and of OpenStack's schemas."""
GIB = 1 << 30
"""Bytes in a GiB."""
