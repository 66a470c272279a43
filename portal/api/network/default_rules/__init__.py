"""Default rules of new security groups."""
