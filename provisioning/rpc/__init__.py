"""Commands and calls to hosts."""
