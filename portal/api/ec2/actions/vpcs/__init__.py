"""VPCs: networks with their subnets, routers and gateways in EC2's terms."""

from portal.api.ec2.actions.vpcs import internet_gateways, network_acls, route_tables, routes, subnets, vpcs

__all__ = ["internet_gateways", "network_acls", "route_tables", "routes", "subnets", "vpcs"]
