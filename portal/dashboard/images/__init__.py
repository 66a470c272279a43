"""Images: list, upload, delete."""
