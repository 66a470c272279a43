"""Version and resources of the Networking API, and extensions of Neutron's core API by alias; clients query them before
using them.
"""

from portal.api.frame import Call, Json, document, endpoint, parts
from portal.api.network.dialect import views
from portal.api.network.registry import RESOURCES
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError


def _base(view: views.NetworkView) -> str:
    return f"{endpoint(view.request, 'network')}/v2.0"


def _link(href: str) -> list[dict[str, str]]:
    return [{"rel": "self", "href": href}]


def _resources(view: views.NetworkView) -> list[Json]:
    base = _base(view)
    return [{"name": each.name, "collection": each.plural, "links": _link(f"{base}/{each.path}")} for each in RESOURCES]


VERSIONS = document(
    views.NetworkView,
    "List the only version.",
    lambda view: {"versions": [{"id": "v2.0", "status": "CURRENT", "links": _link(f"{_base(view)}/")}]},
)
"""``GET /network``."""
V2 = document(views.NetworkView, "List every resource with its address.", lambda view: {"resources": _resources(view)})
"""``GET /network/v2.0``."""


EXTENSIONS: dict[str, tuple[str, str]] = {
    "address-scope": ("Address scope", "Subnet pools whose ranges do not overlap."),
    "agent": ("agent", "The services on each host."),
    "allowed-address-pairs": ("Allowed Address Pairs", "Additional addresses that a port may send from."),
    "auto-allocated-topology": ("Auto Allocated Topology Services", "A network and a router with one request."),
    "availability_zone": ("Availability Zone", "Zones of hosts."),
    "availability_zone_filter": ("Availability Zone Filter Extension", "Filters zones by name, state and resource."),
    "binding": ("Port Binding", "The host of a port, for operators."),
    "binding-extended": ("Port Bindings Extended", "Both hosts of a port whose server is migrated live."),
    "default-subnetpools": ("Default Subnetpools", "The subnet pool that is used if a request specifies none."),
    "dns-integration": ("DNS Integration", "DNS names of ports, networks and floating IPs."),
    "empty-string-filtering": ("Empty String Filtering Extension", "Filters lists by attributes that are empty."),
    "external-net": ("Neutron external network", "Networks outside the cloud."),
    "extra_dhcp_opt": ("Neutron Extra DHCP options", "DHCP options of a single port."),
    "filter-validation": ("Filter parameters validation", "An unknown filter is refused."),
    "ip-substring-filtering": ("IP address substring filtering", "Filters ports by a part of their addresses."),
    "network_availability_zone": ("Network Availability Zone", "Zone hints and zones of networks."),
    "net-mtu": ("Network MTU", "The MTU of a network."),
    "net-mtu-writable": ("Network MTU (writable)", "The MTU can be set and updated."),
    "network-ip-availability": ("Network IP Availability", "Addresses of networks, and how many are in use."),
    "pagination": ("Pagination support", "Pages of lists, by limit and marker."),
    "port-security": ("Port Security", "Whether ports may send only from their own addresses."),
    "port-mac-address-regenerate": (
        "Neutron Port MAC address regenerate",
        "Setting the MAC address to null generates another one.",
    ),
    "port-trusted-vif": ("Port trusted vif", "Whether a virtual function of a port is trusted."),
    "port-security-groups-filtering": ("Port filtering on security groups", "Filters ports by their security groups."),
    "project-id": ("project_id field enabled", "The attribute project_id, in addition to tenant_id."),
    "provider": ("Provider Network", "The physical mapping of a network, for operators."),
    "quota-check-limit": ("Quota limit check", "A limit below the usage is refused."),
    "quota-check-limit-default": (
        "Quota limit check by default",
        "A limit below the usage is refused unless force is set.",
    ),
    "quota_details": ("Quota details management support", "Usage and reservations of each quota."),
    "quotas": ("Quota management support", "Quotas of each project."),
    "rbac-policies": ("RBAC Policies", "Networks can be shared with single projects."),
    "rbac-security-groups": (
        "Add security_group type to network RBAC",
        "Security groups can be shared with single projects.",
    ),
    "rbac-address-group": ("Add address group type to RBAC", "Address groups can be shared with single projects."),
    "rbac-address-scope": ("Add address_scope type to RBAC", "Address scopes can be shared with single projects."),
    "rbac-subnetpool": ("Add subnetpool type to RBAC", "Subnet pools can be shared with single projects."),
    "router": ("Neutron L3 Router", "Routers and floating IPs."),
    "router_availability_zone": ("Router Availability Zone", "Zone hints and zones of routers."),
    "ext-gw-mode": (
        "Neutron L3 Configurable external gateway mode",
        "Source NAT of routers can be switched off (enable_snat).",
    ),
    "extraroute": ("Neutron Extra Route", "Routes of routers."),
    "extraroute-atomic": ("Atomically add/remove extra routes", "Adds and removes single routes of a router."),
    "dvr": ("Distributed Virtual Router", "Routers are on every host that needs them."),
    "fip-port-details": ("Floating IP Port Details Extension", "The port of a floating IP."),
    "expose-port-forwarding-in-fip": ("Expose Port Forwarding in FIP", "A floating IP shows its port forwardings."),
    "floating-ip-port-forwarding": ("Floating IP Port Forwarding", "Forwards ports of a floating IP."),
    "floating-ip-port-forwarding-description": (
        "Description support for port forwarding rules",
        "A description of each forwarding.",
    ),
    "floating-ip-port-forwarding-detail": (
        "Floating IP port forwarding detail",
        "The port forwardings that a floating IP shows have their ids and the ids of their ports.",
    ),
    "floating-ip-port-forwarding-port-ranges": ("Ranges of ports", "Forwards ranges of ports."),
    "floatingip-pools": ("Floating IP Pools Extension", "The subnets of external networks."),
    "security-group": ("security-group", "Security groups and their rules."),
    "address-group": ("Address group", "Groups of address ranges for rules."),
    "security-groups-shared-filtering": (
        "Security group filtering on the shared field",
        "Security groups filtered by whether they are shared with the caller.",
    ),
    "security-groups-remote-address-group": (
        "Remote address group id field for security group rules",
        "Rules can refer to address groups.",
    ),
    "security-groups-default-rules": (
        "Default rules for security groups",
        "Rules that new security groups get, set by operators.",
    ),
    "stateful-security-group": (
        "Stateful security group",
        "Groups can be stateless: their rules then apply to each packet separately.",
    ),
    "security-groups-normalized-cidr": (
        "Normalized CIDR field for security group rules",
        "The range of a rule as it is applied (normalized_cidr).",
    ),
    "service-type": ("Neutron Service Type Management", "The provider of routers."),
    "sorting": ("Sorting support", "Lists sorted by attributes."),
    "sort-key-validation": ("Sort key validation", "An unknown sort key is refused."),
    "standard-attr-description": ("standard-attr-description", "A description of every resource."),
    "standard-attr-revisions": (
        "Resource revision numbers",
        "Each resource has a number that rises with every change.",
    ),
    "revision-if-match": (
        "If-Match constraints based on revision_number",
        "A request can require a certain revision of a resource.",
    ),
    "standard-attr-tag": ("Tag support for resources with standard attribute", "Tags on every resource."),
    "subnet-service-types": ("Subnet service types", "Device owners that may use a subnet's addresses."),
    "subnet_allocation": ("Subnet Allocation", "Subnet pools."),
    "subnetpool-prefix-ops": ("Subnet Pool Prefix Operations", "Adds and removes single prefixes of subnet pools."),
    "tag-creation": ("Tag creation extension", "Adds several tags in one request."),
    "standard-attr-timestamp": ("Resource timestamps", "Times of creation and last change."),
}
"""Alias → name and description."""
UPDATED = "2026-01-01T00:00:00-00:00"


def shape(alias: str) -> dict[str, object]:
    name, description = EXTENSIONS[alias]
    return {"alias": alias, "name": name, "description": description, "updated": UPDATED, "links": []}


def _extension(context: RequestContext, alias: str) -> dict[str, object]:
    if alias not in EXTENSIONS:
        raise NotFoundError(f"Extension with alias {alias} does not exist")
    return shape(alias)


PARTS = parts(
    views.NetworkView,
    "extensions",
    {
        "GET": Call(lambda context: [*map(shape, EXTENSIONS)], "novella:get_extensions", name="extensions"),
        "GET /{alias}": Call(_extension, "novella:get_extensions", name="extension"),
    },
)
