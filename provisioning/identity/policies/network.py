"""The Network API: rules for the operations on each resource, and for attributes that only operators set or see."""

from collections.abc import Mapping, Sequence

from provisioning.identity.policies.base import ADMIN, MEMBER, READER, Rule, rule

OWNER = f"{ADMIN} or ({MEMBER} and project_id:%(project_id)s)"
"""ADMIN_OR_PROJECT_MEMBER in Neutron."""
NETWORK_OWNER = f"{ADMIN} or ({MEMBER} and (project_id:%(project_id)s or project_id:%(network:project_id)s))"
"""ADMIN_OR_NET_OWNER_MEMBER in Neutron: the owner of the object or of its network."""
NEW_ON_NETWORK = f"{ADMIN} or ({MEMBER} and project_id:%(network:project_id)s)"
NETWORK_MANAGER = f"{ADMIN} or (role:manager and project_id:%(network:project_id)s)"
"""NET_OWNER_MANAGER in Neutron: the manager of the project that owns the network."""
KINDS = (
    "networks",
    "subnets",
    "subnetpools",
    "address-scopes",
    "ports",
    "security-groups",
    "security-group-rules",
    "address-groups",
    "routers",
    "floatingips",
    "rbac-policies",
)
_METHODS = {"get": "GET", "create": "POST", "update": "PUT", "delete": "DELETE"}
_DOES = {"get": "See", "create": "Set", "update": "Change"}


def attribute(name: str, key: str, words: str, *, path: str = "", **checks: str) -> tuple[Rule, ...]:
    """Return the rules of one attribute: verb → check; ``words`` completes "See …", "Set …" and "Change …"."""
    path = path or f"{name.replace('_', '-')}s"
    one = f"/v2.0/{path}/{{{name}_id}}"
    paths = {"get": (f"/v2.0/{path}", one), "create": (f"/v2.0/{path}",), "update": (one,)}
    return tuple(
        rule(
            f"{verb}_{name}:{key}", check, f"{_DOES[verb]} {words}.", *(f"{_METHODS[verb]} {at}" for at in paths[verb])
        )
        for verb, check in checks.items()
    )


def operations(
    name: str,
    words: str,
    check: str = OWNER,
    *,
    plural: str = "",
    create: str = "",
    delete: str = "",
    verbs: Sequence[str] = tuple(_METHODS),
    tagged: bool = True,
) -> tuple[Rule, ...]:
    """Return the rules of a resource's operations and tags; ``words`` is its name in the plural.

    ``create`` and ``delete``: the checks of these operations, if they differ.
    """
    plural = plural or f"{name}s"
    checks = {"get": READER, "create": create or check, "delete": delete or check}
    descriptions = {
        "get": f"List and show {words}.",
        "create": f"Create {words}.",
        "update": f"Change {words}.",
        "delete": f"Delete {words}.",
    }
    return (
        *(rule(f"{verb}_{name}", checks.get(verb, check), descriptions[verb]) for verb in verbs),
        *(tags(plural, words, check) if tagged else ()),
    )


def tags(plural: str, words: str, check: str = OWNER) -> tuple[Rule, ...]:
    """Return the rules of the tags of a resource."""
    rules: Mapping[str, tuple[str, str]] = {
        "get": (READER, f"See the tags of {words}."),
        "update": (check, f"Set and add tags of {words}."),
        "delete": (check, f"Remove tags of {words}."),
    }
    return tuple(rule(f"{verb}_{plural}_tags", *described) for verb, described in rules.items())


RULES = (
    *operations("network", "networks"),
    *attribute("network", "shared", "whether a network is shared", create=ADMIN, update=ADMIN),
    *attribute("network", "router:external", "whether a network is external", create=ADMIN, update=ADMIN),
    *attribute("network", "is_default", "whether an external network is the default", create=ADMIN, update=ADMIN),
    *attribute("network", "port_security_enabled", "whether new ports have port security", create=OWNER, update=OWNER),
    *attribute("network", "mtu", "the MTU of a network", create=OWNER, update=OWNER),
    *attribute("network", "provider:network_type", "a network's type", get=ADMIN, create=ADMIN),
    *attribute("network", "provider:physical_network", "a network's physical network", get=ADMIN, create=ADMIN),
    *attribute("network", "provider:segmentation_id", "a network's segmentation id", get=ADMIN, create=ADMIN),
    *operations("subnet", "subnets", NETWORK_OWNER, create=NEW_ON_NETWORK),
    *attribute(
        "subnet",
        "service_types",
        "the device owners whose ports a subnet is for",
        create=NEW_ON_NETWORK,
        update=NETWORK_OWNER,
    ),
    *operations("subnetpool", "subnet pools"),
    *attribute("subnetpool", "shared", "whether a subnet pool is shared", create=ADMIN),
    *attribute("subnetpool", "is_default", "whether a subnet pool is the default", create=ADMIN, update=ADMIN),
    rule("add_prefixes", OWNER, "Add prefixes to subnet pools."),
    rule("remove_prefixes", OWNER, "Remove prefixes from subnet pools."),
    *operations("address_scope", "address scopes", tagged=False),
    *attribute("address_scope", "shared", "whether an address scope is shared", create=ADMIN, update=ADMIN),
    *operations("port", "ports", delete=NETWORK_OWNER),
    *attribute("port", "device_id", "the device of a port", create=OWNER, update=OWNER),
    *attribute("port", "device_owner", "the device owner of a port, ``network:…``", create=ADMIN, update=ADMIN),
    *attribute("port", "mac_address", "the MAC address of a port", create=NEW_ON_NETWORK, update=NETWORK_MANAGER),
    *attribute("port", "fixed_ips", "the addresses of a port", create=OWNER, update=OWNER),
    *attribute(
        "port", "fixed_ips:ip_address", "the IP addresses of a port", create=NEW_ON_NETWORK, update=NEW_ON_NETWORK
    ),
    *attribute("port", "fixed_ips:subnet_id", "the subnets of a port's addresses", create=OWNER, update=OWNER),
    *attribute(
        "port",
        "port_security_enabled",
        "whether a port has port security",
        create=NEW_ON_NETWORK,
        update=NEW_ON_NETWORK,
    ),
    *attribute(
        "port",
        "allowed_address_pairs",
        "the allowed address pairs of a port",
        create=NEW_ON_NETWORK,
        update=NEW_ON_NETWORK,
    ),
    *attribute(
        "port",
        "allowed_address_pairs:ip_address",
        "the IP addresses of a port's allowed address pairs",
        create=NEW_ON_NETWORK,
        update=NEW_ON_NETWORK,
    ),
    *attribute(
        "port",
        "allowed_address_pairs:mac_address",
        "the MAC addresses of a port's allowed address pairs",
        create=NEW_ON_NETWORK,
        update=NEW_ON_NETWORK,
    ),
    *attribute(
        "port",
        "binding:host_id",
        "the host of a port, and the type of its interface",
        get=ADMIN,
        create=ADMIN,
        update=ADMIN,
    ),
    *attribute("port", "binding:vif_type", "how a port is connected on its host", get=ADMIN),
    *attribute("port", "binding:vif_details", "details of a port's connection", get=ADMIN),
    *attribute("port", "binding:profile", "the binding profile of a port", get=ADMIN, create=ADMIN, update=ADMIN),
    rule("get_port_binding", ADMIN, "List and show the hosts to which a port is bound."),
    rule("activate", ADMIN, "Activate a binding: refused, because migrations do so."),
    *attribute("port", "trusted", "whether a virtual function is trusted", get=ADMIN, create=ADMIN, update=ADMIN),
    *attribute("port", "binding:vnic_type", "the VNIC type of a port", create=OWNER, update=OWNER),
    *operations("security_group", "security groups"),
    *operations("security_group_rule", "the rules of security groups", verbs=("get", "create", "delete")),
    *operations(
        "default_security_group_rule",
        "the default rules of new security groups",
        ADMIN,
        verbs=("get", "create", "delete"),
        tagged=False,
    ),
    *operations("address_group", "address groups", tagged=False),
    *operations("router", "routers"),
    *attribute("router", "distributed", "whether a router is distributed", get=ADMIN, create=ADMIN, update=ADMIN),
    *attribute(
        "router", "external_gateway_info:enable_snat", "whether a router uses source NAT", create=ADMIN, update=ADMIN
    ),
    *attribute(
        "router",
        "external_gateway_info:external_fixed_ips",
        "the external addresses of a router",
        create=ADMIN,
        update=ADMIN,
    ),
    rule("add_router_interface", OWNER, "Attach routers to networks."),
    rule("remove_router_interface", OWNER, "Detach routers from networks."),
    rule("add_extraroutes", OWNER, "Add routes to routers."),
    rule("remove_extraroutes", OWNER, "Remove routes from routers."),
    *operations("floatingip", "floating IPs"),
    *attribute(
        "floatingip", "floating_ip_address", "the address of a floating IP", create="rule:project_manager_or_admin"
    ),
    *operations("floatingip_port_forwarding", "port forwardings of floating IPs", tagged=False),
    *operations("rbac_policy", "RBAC policies", plural="rbac_policies", tagged=False),
    *attribute(
        "rbac_policy",
        "target_tenant",
        "that an RBAC policy applies to all projects",
        path="rbac-policies",
        create=ADMIN,
        update=ADMIN,
    ),
    rule("get_auto_allocated_topology", OWNER, "Create or show a project's auto-allocated network and router."),
    rule("delete_auto_allocated_topology", OWNER, "Delete a project's auto-allocated network and router."),
    rule("get_agent", ADMIN, "List and show the agents of hosts."),
    rule("get_availability_zone", READER, "List availability zones."),
    rule("get_service_provider", READER, "List service providers."),
    rule("get_floatingip_pool", READER, "List floating IP pools."),
    rule("get_network_ip_availability", ADMIN, "Show how many addresses of each network are in use."),
    rule(
        "novella:get_networks:all_projects",
        ADMIN,
        "Show the objects of all projects, and create objects for other projects.",
        *(f"GET /v2.0/{kind}" for kind in KINDS),
    ),
    rule("novella:get_extensions", READER, "List the API's extensions."),
)
