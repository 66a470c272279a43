"""Django's PostgreSQL backend with prepared statements."""
