"""All resources of the Networking API that are declared with the frame."""

from portal.api.network.resources.address_groups import ADDRESS_GROUP
from portal.api.network.resources.address_scopes import ADDRESS_SCOPE
from portal.api.network.resources.agents import AGENT, AVAILABILITY_ZONE, SERVICE_PROVIDER
from portal.api.network.resources.availability import NETWORK_IP_AVAILABILITY
from portal.api.network.resources.default_rules import DEFAULT_SECURITY_GROUP_RULE
from portal.api.network.resources.floating_ip_pools import FLOATING_IP_POOL
from portal.api.network.resources.floating_ips import FLOATING_IP
from portal.api.network.resources.networks import NETWORK
from portal.api.network.resources.ports import PORT
from portal.api.network.resources.rbac_policies import RBAC_POLICY
from portal.api.network.resources.routers import ROUTER
from portal.api.network.resources.security_groups import SECURITY_GROUP, SECURITY_GROUP_RULE
from portal.api.network.resources.subnetpools import SUBNETPOOL
from portal.api.network.resources.subnets import SUBNET

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
