"""Host aggregates and availability zones."""
