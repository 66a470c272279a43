"""Django's PostgreSQL backend with plans that are kept."""
