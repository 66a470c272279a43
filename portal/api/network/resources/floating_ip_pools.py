"""Floating IP pools (Networking API v2.0 reference, "Floating IP pools"): the IPv4 subnets of external networks."""

from portal.api.frame.resource import Operation
from portal.api.network.dialect.attributes import Attribute
from portal.api.network.dialect.kinds import ID, PROJECT_ID, TEXT
from portal.api.network.dialect.resource import Resource
from provisioning.network.selectors.routing import floating_ip_pools_for

FLOATING_IP_POOL = Resource(
    name="floatingip_pool",
    path="floatingip_pools",
    list=Operation(floating_ip_pools_for),
    target=lambda row: {},
    tagged=False,
    attributes=(
        Attribute(name="subnet_id", kind=ID, column="id", sort=True),
        Attribute(name="subnet_name", kind=TEXT, column="name", sort=True),
        Attribute(name="network_id", kind=ID, sort=True),
        Attribute(name="cidr", kind=TEXT, sort=True),
        Attribute(name="project_id", kind=PROJECT_ID, column="caller_id", filter=False),
        Attribute(name="tenant_id", kind=PROJECT_ID, column="caller_id", filter=False),
    ),
)
