"""Networks, floating IPs, security groups and their rules in the Compute API up to 2.35."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.db.models import QuerySet

from portal.api.compute.dialect import WITH_OFFSET
from portal.api.compute.proxies.base import ProxyView, limited
from portal.api.compute.servers.shapes import REMOTE, rule_shape, security_group
from portal.api.frame import Call, Json, Schema, Shape, Values, Views, body, parts
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.common.lists.listing import Listing, Part, Sort
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.identity import policy
from provisioning.network import selectors, services
from provisioning.network.errors import OutOfAddressesError
from provisioning.network.models import FloatingIP, Network, SecurityGroup, SecurityGroupRule
from provisioning.network.records import flows
from provisioning.network.records.owners import COMPUTE
from provisioning.network.selectors import routing
from provisioning.network.selectors.visibility import sees_all

_NETWORK_FIELDS = (
    "cidr", "netmask", "gateway", "broadcast", "dns1", "dns2", "cidr_v6", "gateway_v6", "netmask_v6",
)  # fmt: skip
_OPERATORS_NETWORK_FIELDS = (
    "created_at", "updated_at", "deleted_at", "deleted", "injected", "bridge", "vlan", "vpn_public_address",
    "vpn_public_port", "vpn_private_address", "dhcp_start", "project_id", "host", "bridge_interface", "multi_host",
    "priority", "rxtx_base", "mtu", "dhcp_server", "enable_dhcp", "share_address",
)  # fmt: skip
"""Fields of nova-network, which no longer exists; their value is null."""


def _list_networks(context: RequestContext) -> QuerySet[Network]:
    return selectors.networks_for(context, all_projects=True).order_by("name", "id")


def _show_network(context: RequestContext, network_id: str) -> Network:
    try:
        return selectors.network_for(context, network_id, all_projects=True)
    except NotFoundError as error:
        raise NotFoundError("Network not found") from error


def _network(view: ProxyView, network: Network) -> Json:
    """Return a network: only two of nova-network's thirty fields have a value."""
    more = _OPERATORS_NETWORK_FIELDS if view.context.is_admin else ()
    return {"id": str(network.id), "label": network.name} | dict.fromkeys((*_NETWORK_FIELDS, *more))


def _tenant_network(view: ProxyView, network: Network) -> Json:
    """Return the fields of a network that projects saw in nova-network; the text ``"None"`` is Nova's."""
    return {"id": str(network.id), "label": network.name, "cidr": "None"}


def _network_parts(path: str, shape: Shape) -> Views:
    calls = {
        "GET": Call(
            _list_networks,
            f"os_compute_api:{path}:list",
            "List the networks that the project may use.",
            also=("get_network",),
            name="networks",
            shape=lambda view, found: [shape(view, each) for each in found],
        ),
        "GET /{network_id}": Call(
            _show_network, f"os_compute_api:{path}:show", also=("get_network",), name="network", shape=shape
        ),
    }
    return parts(ProxyView, path, calls)


NETWORKS = _network_parts("os-networks", _network) | _network_parts("os-tenant-networks", _tenant_network)


_FLOATING_IP_CREATION: Schema = {
    "type": "object",
    "properties": {"pool": {"type": ["string", "null"], "maxLength": 255}},
    "additionalProperties": True,
}


def _floating_ip_shape(view: ProxyView, floating: FloatingIP) -> Json:
    """One floating IP; ``pool`` is the name of its network."""
    port = floating.fixed_port
    server = port.device_id if port is not None and port.device_owner.startswith(COMPUTE) else None
    return {
        "id": str(floating.id),
        "ip": floating.address,
        "pool": floating.network.name or str(floating.network_id),
        "fixed_ip": floating.fixed_address,
        "instance_id": str(server) if server else None,
    }


def _create_floating_ip(context: RequestContext, body: Json) -> FloatingIP:
    requested = body.get("pool")
    pools = routing.external_networks_for(context)
    found = [each for each in pools if requested is None or requested in {each.name, str(each.id)}]
    if not found:
        raise NotFoundError("Floating IP pool not found.", field="pool")
    try:
        return services.create_floating_ip(context.project_id or NOBODY, found[0])
    except OutOfAddressesError as error:
        raise NotFoundError(f"No more floating IPs in pool {found[0].name}.") from error  # quoted: Nova


def _floating_ip(context: RequestContext, identity: str) -> FloatingIP:
    try:
        return routing.floating_ip_for(context, identity, all_projects=True)
    except NotFoundError as error:
        raise NotFoundError(f"Floating IP not found for ID {identity[:64]}") from error


def _delete_floating_ip(context: RequestContext, identity: str) -> None:
    floating = _floating_ip(context, identity)
    policy.enforce(context, "delete_floatingip", {"project_id": floating.project_id})
    services.delete_floating_ip(floating)


FLOATING_IPS = parts(
    ProxyView,
    "",
    {
        "GET os-floating-ips": Call(
            lambda context: routing.floating_ips_for(context).order_by("created_at", "id"),
            "os_compute_api:os-floating-ips:list",
            "List the project's floating IPs.",
            also=("get_floatingip",),
            name="floating_ips",
            shape=lambda view, found: [_floating_ip_shape(view, each) for each in found],
        ),
        "POST os-floating-ips": Call(
            _create_floating_ip,
            "os_compute_api:os-floating-ips:create",
            "Allocate a floating IP from the pool with this name or id; by default from the default external network.",
            also=("create_floatingip",),
            name="floating_ip",
            shape=_floating_ip_shape,
            body=_FLOATING_IP_CREATION,
        ),
        "GET os-floating-ips/{floating_ip_id}": Call(
            _floating_ip,
            "os_compute_api:os-floating-ips:show",
            also=("get_floatingip",),
            name="floating_ip",
            shape=_floating_ip_shape,
        ),
        "DELETE os-floating-ips/{floating_ip_id}": Call(
            _delete_floating_ip,
            "os_compute_api:os-floating-ips:delete",
            "Release a floating IP, even if it is associated.",
            status=202,
        ),
        "GET os-floating-ip-pools": Call(
            routing.external_networks_for,
            "os_compute_api:os-floating-ip-pools",
            "List the external networks by name.",
            also=("get_network",),
            name="floating_ip_pools",
            shape=lambda view, found: [{"name": each.name or str(each.id)} for each in found],
        ),
    },
)


GROUPS = Listing[SecurityGroup](order=[Sort(key, descending=False) for key in ("project_id", "name", "id")])
_WORDS: Schema = {"type": "string", "maxLength": 255}
GROUP = body("security_group", {"name": _WORDS, "description": _WORDS}, ("name", "description"), closed=False)


_NUMBER: Schema = {"type": ["integer", "string", "null"], "pattern": r"^-?[0-9]{1,5}\Z"}
_GROUP: Schema = {"type": "string", "format": "uuid"}
_TEXT: Schema = {"type": ["string", "null"], "maxLength": 64}
RULE = body(
    "security_group_rule",
    {
        "parent_group_id": _GROUP,
        "ip_protocol": _TEXT,
        "from_port": _NUMBER,
        "to_port": _NUMBER,
        "cidr": _TEXT,
        "group_id": _GROUP | {"type": ["string", "null"]},
    },
    ("parent_group_id",),
    closed=False,
)
_WHOLE = {"tcp": (1, flows.HIGHEST_PORT), "udp": (1, flows.HIGHEST_PORT), "icmp": (-1, -1)}
"""Protocol → the port range of a rule with a remote group that specifies no ports."""


def _check_uuid(identity: str) -> None:
    """Raise InvalidInputError if the id of a group or rule is not a UUID."""
    if read_id(identity) is None:
        raise InvalidInputError("Security group id should be uuid", field="id")


@contextmanager
def _refused() -> Iterator[None]:
    """Convert a ConflictError in this context, which the Network API answers with 409, into InvalidInputError (400), as
    in Nova.
    """
    try:
        yield
    except ConflictError as error:
        raise InvalidInputError(error.message) from error


def _group(context: RequestContext, identity: str, rule: str) -> SecurityGroup:
    """Return a group that the caller may see, if this rule of the Network API allows it.

    Raises NotFoundError, and InvalidInputError for an invalid UUID.
    """
    _check_uuid(identity)
    try:
        group = selectors.security_group_for(context, identity, all_projects=True)
    except NotFoundError as error:
        raise NotFoundError(f"Security group {identity[:64]} not found.") from error
    policy.enforce(context, rule, {"project_id": group.project_id})
    return group


def _list_groups(context: RequestContext, *, every: bool, part: Part) -> Sequence[SecurityGroup]:
    """Return a page of the project's groups, or with ``every`` the groups of all projects if the caller is an operator.

    As in the Network API, the project's ``default`` group is created if it does not exist.
    """
    project = context.project_id or NOBODY
    if context.project_id:
        services.ensure_default_security_group(project)
    groups = selectors.security_groups_for(context, all_projects=every)
    if not (every and sees_all(context)):
        groups = groups.filter(project_id=project)
    return GROUPS.page(groups.prefetch_related(REMOTE), part)


def _group_page(view: ProxyView) -> Values:
    return {"every": "all_tenants" in view.checked_query(), "part": WITH_OFFSET.read_part(view.request)}


def _create_group(context: RequestContext, body: dict[str, str]) -> SecurityGroup:
    with _refused():
        return services.create_security_group(
            context.project_id or NOBODY, body["name"], description=body["description"]
        )


def _update_group(context: RequestContext, identity: str, body: dict[str, str]) -> SecurityGroup:
    group = _group(context, identity, "update_security_group")
    with _refused():
        return services.update_security_group(group, {name: body[name] for name in ("name", "description")})


def _delete_group(context: RequestContext, identity: str) -> None:
    group = _group(context, identity, "delete_security_group")
    with _refused():
        services.delete_security_group(group, even_default=sees_all(context))


def _group_shape(view: ProxyView, group: SecurityGroup) -> Json:
    """Return the current state of a group."""
    rows = SecurityGroup.objects.prefetch_related("rules", REMOTE)
    return security_group(rows.get(pk=group.pk))


def _create_rule(context: RequestContext, body: Json) -> SecurityGroupRule:
    group = _group(context, body["parent_group_id"], "create_security_group_rule")
    source = _group(context, body["group_id"], "get_security_group") if body.get("group_id") else None
    flow = _flow(body, of_group=source is not None)
    with _refused():
        [row] = services.create_security_group_rules([services.RequestedRule(group, flow, source)])
    return row


def _delete_rule(context: RequestContext, identity: str) -> None:
    _check_uuid(identity)
    try:
        row = selectors.security_group_rule_for(context, identity, all_projects=True)
    except NotFoundError as error:
        raise NotFoundError(f"Security group rule {identity[:64]} not found.") from error
    policy.enforce(context, "delete_security_group_rule", {"project_id": row.group.project_id})
    services.delete_security_group_rule(row)


def _flow(rule: Json, *, of_group: bool) -> flows.Flow:
    """Return the traffic that the body allows; a rule with a CIDR requires protocol and ports, as in nova-network."""
    name = (rule.get("ip_protocol") or "").lower()
    first, last = (int(rule[end]) if rule.get(end) not in {None, ""} else None for end in ("from_port", "to_port"))
    if of_group and first is None and last is None:
        first, last = _WHOLE.get(name, (None, None))
    if name and name not in _WHOLE:
        raise InvalidInputError(f"Invalid IP protocol {name[:64]}.", field="ip_protocol")
    if not of_group and (not name or first is None or last is None):
        raise InvalidInputError("Not enough parameters to build a valid rule.", field="ip_protocol")
    prefix = None if of_group else rule.get("cidr") or "0.0.0.0/0"
    ethertype = "IPv6" if prefix and ":" in prefix else "IPv4"
    if name == "icmp":
        first, last = (None if number == -1 else number for number in (first, last))
    return flows.checked("ingress", ethertype, name or None, first, last, prefix)


_RULES = "os_compute_api:os-security-groups:"
SECURITY_GROUPS = parts(
    ProxyView,
    "",
    {
        "GET os-security-groups": Call(
            _list_groups,
            f"{_RULES}get",
            "List the project's groups by name; with ``all_tenants``, operators list the groups of all projects. As in"
            " the Network API, the project's ``default`` group is created if it does not exist.",
            also=("get_security_group",),
            name="security_groups",
            shape=lambda view, found: [security_group(group) for group in found],
            query=limited,
            more=_group_page,
        ),
        "POST os-security-groups": Call(
            _create_group,
            f"{_RULES}create",
            "Create a group with the default rules.",
            also=("create_security_group",),
            name="security_group",
            shape=_group_shape,
            body=GROUP,
        ),
        "GET os-security-groups/{security_group_id}": Call(
            lambda context, identity: _group(context, identity, "get_security_group"),
            f"{_RULES}show",
            name="security_group",
            shape=_group_shape,
        ),
        "PUT os-security-groups/{security_group_id}": Call(
            _update_group,
            f"{_RULES}update",
            "Update the name and description.",
            name="security_group",
            shape=_group_shape,
            body=GROUP,
        ),
        "DELETE os-security-groups/{security_group_id}": Call(
            _delete_group, f"{_RULES}delete", "Delete a group that is not in use by a port.", status=202
        ),
        "POST os-security-group-rules": Call(
            _create_rule,
            f"{_RULES}rule:create",
            "Create a rule that allows traffic from a CIDR (default 0.0.0.0/0) or from another group.",
            name="security_group_rule",
            shape=lambda view, row: rule_shape(row),
            body=RULE,
        ),
        "DELETE os-security-group-rules/{rule_id}": Call(_delete_rule, f"{_RULES}rule:delete", status=202),
    },
)
