"""Everything that writes limits, reservations and usage."""
