"""All resources of the Networking API that are declared with the frame."""

from portal.api.network.address_groups.resource import ADDRESS_GROUP
from portal.api.network.address_scopes.resource import ADDRESS_SCOPE
from portal.api.network.agents.resource import AGENT, AVAILABILITY_ZONE, SERVICE_PROVIDER
from portal.api.network.availability.resource import NETWORK_IP_AVAILABILITY
from portal.api.network.default_rules.resource import DEFAULT_SECURITY_GROUP_RULE
from portal.api.network.floating_ips.resource import FLOATING_IP
from portal.api.network.networks.resource import NETWORK
from portal.api.network.ports.resource import PORT
from portal.api.network.rbac_policies.resource import RBAC_POLICY
from portal.api.network.routers.resource import ROUTER
from portal.api.network.security_groups.resource import SECURITY_GROUP, SECURITY_GROUP_RULE
from portal.api.network.subnetpools.resource import SUBNETPOOL
from portal.api.network.subnets.resource import SUBNET

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
    RBAC_POLICY,
    AGENT,
    AVAILABILITY_ZONE,
    SERVICE_PROVIDER,
    NETWORK_IP_AVAILABILITY,
)
