"""Attachments, and the storage daemons that serve them."""
