"""All resources of the Networking API that are declared with the frame."""

from portal.api.network.resources.agents import AGENT, AVAILABILITY_ZONE, NETWORK_IP_AVAILABILITY, SERVICE_PROVIDER
from portal.api.network.resources.floating_ips import FLOATING_IP, FLOATING_IP_POOL
from portal.api.network.resources.networks import NETWORK, SUBNET
from portal.api.network.resources.ports import PORT
from portal.api.network.resources.rbac_policies import RBAC_POLICY
from portal.api.network.resources.routers import ROUTER
from portal.api.network.resources.security_groups import (
    ADDRESS_GROUP,
    DEFAULT_SECURITY_GROUP_RULE,
    SECURITY_GROUP,
    SECURITY_GROUP_RULE,
)
from portal.api.network.resources.subnetpools import ADDRESS_SCOPE, SUBNETPOOL

RESOURCES = (
    NETWORK,
    SUBNET,
    SUBNETPOOL,
    ADDRESS_SCOPE,
    PORT,
    SECURITY_GROUP,
    SECURITY_GROUP_RULE,
    DEFAULT_SECURITY_GROUP_RULE,
    ADDRESS_GROUP,
    ROUTER,
    FLOATING_IP,
    FLOATING_IP_POOL,
    RBAC_POLICY,
    AGENT,
    AVAILABILITY_ZONE,
    SERVICE_PROVIDER,
    NETWORK_IP_AVAILABILITY,
)
