"""Networks and subnets."""
