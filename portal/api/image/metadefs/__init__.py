"""Metadata definitions: ``/image/v2/metadefs``."""
