"""The pages of networking: networks, routers, floating IPs, security groups, and what an instance has of them."""
