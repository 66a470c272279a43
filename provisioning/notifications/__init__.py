"""What the cloud tells other programs: notifications in Nova's versioned shape, and their way to a webhook."""
