"""Key pairs: list, create, import, delete."""
