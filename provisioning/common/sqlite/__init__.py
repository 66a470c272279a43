"""Django's SQLite backend with a better way to wait for the one writer."""
