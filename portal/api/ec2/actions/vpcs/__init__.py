"""VPCs: networks with their subnets, routers and gateways in EC2's terms."""

from importlib import import_module

for name in ("vpcs", "subnets", "internet_gateways", "route_tables", "routes", "network_acls"):
    import_module(f"{__name__}.{name}")
