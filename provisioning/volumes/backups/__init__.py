"""Data of backups, their stores, and their transfer to and from hosts."""
