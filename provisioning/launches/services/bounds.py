"""Limits of the records of one project."""

MOST_TEMPLATES = 100
MOST_VERSIONS = 50
"""Versions of one launch template."""
MOST_SNIPPETS = 100
LONGEST_SNIPPET = 16_384
"""Bytes of one snippet."""
