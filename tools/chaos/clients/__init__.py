"""The operations of clients: each combines several requests."""
