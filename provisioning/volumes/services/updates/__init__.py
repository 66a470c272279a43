"""Changes of existing volumes: records, size, type, pool and project."""
