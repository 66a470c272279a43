"""Notifications to other programs in Nova's versioned format, and their delivery to a webhook."""
