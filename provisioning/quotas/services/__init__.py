"""Services that write limits, reservations and usage."""
