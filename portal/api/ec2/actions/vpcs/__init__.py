"""VPCs: networks with their subnets, routers and gateways in EC2's terms."""
