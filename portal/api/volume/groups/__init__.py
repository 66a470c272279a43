"""Groups, group types and group snapshots."""
