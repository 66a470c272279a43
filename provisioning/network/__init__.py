"""Networks, subnets, ports, addresses and security groups."""
