"""All resources of the Networking API that are declared with the frame."""

from portal.api.network.resources import (
    agents,
    floating_ips,
    networks,
    ports,
    rbac_policies,
    routers,
    security_groups,
    subnetpools,
)

RESOURCES = (
    networks.NETWORK,
    networks.SUBNET,
    subnetpools.SUBNETPOOL,
    subnetpools.ADDRESS_SCOPE,
    ports.PORT,
    security_groups.SECURITY_GROUP,
    security_groups.SECURITY_GROUP_RULE,
    security_groups.DEFAULT_SECURITY_GROUP_RULE,
    security_groups.ADDRESS_GROUP,
    routers.ROUTER,
    floating_ips.FLOATING_IP,
    floating_ips.FLOATING_IP_POOL,
    rbac_policies.RBAC_POLICY,
    agents.AGENT,
    agents.AVAILABILITY_ZONE,
    agents.SERVICE_PROVIDER,
    agents.NETWORK_IP_AVAILABILITY,
)
