"""Identity API v3."""
