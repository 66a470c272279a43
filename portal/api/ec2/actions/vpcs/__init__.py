"""VPCs: networks with their subnets, routers and ways out, as EC2 knows them."""

from importlib import import_module

for name in ("vpcs", "subnets", "internet_gateways", "route_tables", "routes", "network_acls"):
    import_module(f"{__name__}.{name}")
