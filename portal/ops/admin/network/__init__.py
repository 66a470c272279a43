"""Networks, routers and security groups of all projects."""
