"""Image API v2."""
