"""Tokens and receipts, and the notification that they were revoked."""
