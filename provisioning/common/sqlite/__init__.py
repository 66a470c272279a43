"""Django's SQLite backend with a faster way to wait for the single writer."""
