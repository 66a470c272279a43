"""The pages of networking: networks, routers, floating IPs, security groups, and the ports of instances."""
