"""Management commands of quotas."""
