"""Commands of quotas."""
