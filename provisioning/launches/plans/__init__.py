"""Plans of launches, and the security groups that they need."""
