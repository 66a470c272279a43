"""Storage pools, and the choice of a pool for a volume."""
