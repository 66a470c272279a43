"""Security groups and their rules, default rules, and address groups (Networking API v2.0 reference, "Security groups",
"Security group rules", "Security group default rules", "Address groups").
"""

from dataclasses import dataclass
from typing import Any

from portal.api.frame import Call, Filter, Json, Operation, Schema, Service, Values, lower, parts
from portal.api.network.dialect import Attribute, Resource, bodies, kinds, query, shared, standard, views
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import read_id
from provisioning.identity import policy
from provisioning.network import addressing, selectors, services
from provisioning.network.errors import SecurityGroupInvalidPortValueError, SecurityGroupRuleInvalidEtherTypeError
from provisioning.network.models import AddressGroup, DefaultSecurityGroupRule, SecurityGroup, SecurityGroupRule
from provisioning.network.records import flows
from provisioning.network.services import RequestedRule

ADDRESSES = kinds.Many(kinds.Text(64))


def _create_address_group(context: RequestContext, values: Values) -> AddressGroup:
    return services.create_address_group(**{"name": "", "addresses": [], **bodies.columns(ADDRESS_GROUP, values)})


def _update_address_group(
    context: RequestContext, row: AddressGroup, values: Values, revision: int | None
) -> AddressGroup:
    return services.update_address_group(row, bodies.columns(ADDRESS_GROUP, values), revision)


def _delete_address_group(context: RequestContext, row: AddressGroup, revision: int | None) -> None:
    services.delete_address_group(row, revision)


ADDRESS_GROUP = Resource(
    name="address_group",
    quota="address_groups",
    list=Operation(selectors.address_groups_for),
    show=Operation(selectors.address_group_for),
    create=Operation(_create_address_group),
    update=Operation(_update_address_group),
    delete=Operation(_delete_address_group),
    tagged=False,
    attributes=(
        *standard(),
        Attribute(name="addresses", kind=ADDRESSES, post=True, default=(), filter=False),
        shared(sort=False),
    ),
)


_NAMED = {"type": "object", "properties": {"addresses": ADDRESSES.schema}}
BODY = {
    "type": "object",
    "properties": {"address_group": _NAMED, "addresses": ADDRESSES.schema},
}
"""The reference's body has an object ``address_group`` around the ranges; openstacksdk's body has the ranges alone."""


def _addresses(body: Any) -> list[str]:
    whole = body if isinstance(body, dict) else {}
    group = whole.get("address_group", whole)
    try:
        return ADDRESSES.read(group.get("addresses") if isinstance(group, dict) else None)
    except ValueError as error:
        raise bodies.HTTPBadRequestError(f"Invalid input for addresses. Reason: {error}.", field="addresses") from None


def _change(service: Service) -> Call:
    return Call(
        service,
        "update_address_group",
        "Update the group and show it.",
        name="address_group",
        shape=lambda view, group: view.shape_of(group.pk),
        body=BODY,
        read=_addresses,
    )


PARTS = parts(
    views.PartView,
    "address-groups/{identity}/",
    {
        "PUT add_addresses": _change(services.add_addresses),
        "PUT remove_addresses": _change(services.remove_addresses),
    },
    resource=ADDRESS_GROUP,
)


DIRECTION = kinds.Choice(("ingress", "egress"))


@dataclass(frozen=True)
class Ethertype(kinds.Kind):
    """IPv4 or IPv6, case-insensitive."""

    @property
    def schema(self) -> Schema:
        return {"enum": ["IPv4", "IPv6"]}

    def read(self, value: object) -> str:
        found = {"ipv4": "IPv4", "ipv6": "IPv6"}.get(str(value).lower())
        if found is None:
            known = "Allowed values are ['IPv4', 'IPv6']."
            msg = f"Security group rule for ethertype {kinds.quoted(value)} not supported. {known}"
            raise SecurityGroupRuleInvalidEtherTypeError(msg, field="ethertype")
        return found


@dataclass(frozen=True)
class PortNumber(kinds.Integer):
    """A port, or an ICMP type or code; the service checks the valid range of the protocol."""

    lowest: int = 0
    highest: int = flows.HIGHEST_PORT

    def read(self, value: object) -> int:
        try:
            return super().read(value)
        except ValueError:
            msg = f"Invalid value for port {str(value)[:64]}"
            raise SecurityGroupInvalidPortValueError(msg, field="port_range_min") from None


@dataclass(frozen=True)
class GroupReference(kinds.Identity):
    """The id of a security or address group. Text that is not a UUID is accepted, and the group is then not found."""

    def read(self, value: object) -> Any:
        return read_id(value) or kinds.Text(36).read(value)


@dataclass(frozen=True)
class Protocol(kinds.Kind):
    """The name or the number of a protocol; null and "any" mean all protocols."""

    @property
    def schema(self) -> Schema:
        return {"type": ["string", "integer", "null"]}

    def read(self, value: object) -> str | None:
        if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
            raise ValueError(f"{kinds.quoted(value)} is not a protocol")
        return flows.protocol_of(value)


ETHERTYPE, PROTOCOL, PORT_NUMBER, REFERENCE = Ethertype(), Protocol(), PortNumber(), GroupReference()


def _make_default_group(context: RequestContext) -> None:
    """Create the project's default security group if it does not exist, as Neutron does."""
    if context.project_id:
        services.ensure_default_security_group(context.project_id)


def _normalized(row: SecurityGroupRule) -> str | None:
    return addressing.network_of(row.remote_ip_prefix) if row.remote_ip_prefix else None


FLOW_ATTRIBUTES = (
    Attribute(name="direction", kind=DIRECTION, sort=True, post=True, required=True),
    Attribute(name="ethertype", kind=ETHERTYPE, sort=True, post=True, default="IPv4"),
    Attribute(name="protocol", kind=PROTOCOL, sort=True, post=True, filter=Filter("protocol", read=lower)),
    Attribute(name="port_range_min", kind=kinds.OrNone(PORT_NUMBER, empty=True), post=True),
    Attribute(name="port_range_max", kind=kinds.OrNone(PORT_NUMBER, empty=True), post=True),
    Attribute(
        name="remote_ip_prefix",
        kind=kinds.OrNone(kinds.Text(64), empty=True),
        post=True,
        filter=Filter("remote_ip_prefix", read=query.range_as_sent),
    ),
)
RULE_ATTRIBUTES = (
    *standard(named=False, owner="group__project_id"),
    Attribute(name="security_group_id", kind=REFERENCE, column="group_id", post=True, required=True),
    *FLOW_ATTRIBUTES,
    Attribute(name="normalized_cidr", kind=kinds.OrNone(kinds.TEXT), filter=False, show=_normalized),
    Attribute(name="remote_group_id", kind=kinds.OrNone(REFERENCE, empty=True), post=True),
    Attribute(name="remote_address_group_id", kind=kinds.OrNone(REFERENCE, empty=True), post=True),
)


def _rules(row: SecurityGroup) -> list[Json]:
    rules = sorted(row.rules.all(), key=lambda rule: (rule.created_at, rule.id))
    for rule in rules:
        rule.group = row
    return [rule_shape(rule) for rule in rules]


def rule_shape(row: SecurityGroupRule) -> Json:
    """Return a rule in the form in which its group contains it."""
    return {each.name: each.value_of(row) for each in RULE_ATTRIBUTES} | {"tags": []}


def _create_group(context: RequestContext, values: Values) -> SecurityGroup:
    return services.create_security_group(**{"name": "", **bodies.columns(SECURITY_GROUP, values)})


def _update_group(context: RequestContext, row: SecurityGroup, values: Values, revision: int | None) -> SecurityGroup:
    return services.update_security_group(row, bodies.columns(SECURITY_GROUP, values), revision)


def _delete_group(context: RequestContext, row: SecurityGroup, revision: int | None) -> None:
    services.delete_security_group(row, revision, even_default=policy.allows(context, views.ALL_PROJECTS))


def _create_rule(context: RequestContext, values: Values) -> SecurityGroupRule:
    everybody = values["project_id"] != context.project_id
    group, remote = values["security_group_id"], values.get("remote_group_id")
    addresses = values.get("remote_address_group_id")
    flow = flows.checked(
        values["direction"],
        values.get("ethertype", "IPv4"),
        *(values.get(name) for name in ("protocol", "port_range_min", "port_range_max", "remote_ip_prefix")),
    )
    requested = RequestedRule(
        selectors.security_group_for(context, group, all_projects=True),
        flow,
        selectors.security_group_for(context, remote, all_projects=everybody) if remote else None,
        selectors.address_group_for(context, addresses, all_projects=everybody) if addresses else None,
        values.get("description", ""),
    )
    return services.create_security_group_rules([requested])[0]


def _delete_rule(context: RequestContext, row: SecurityGroupRule, revision: int | None) -> None:
    services.delete_security_group_rule(row)


def _of_group(context: RequestContext, values: Values) -> dict[str, object]:
    """Return the project of the rule's group, for the policy check."""
    group = selectors.security_group_for(context, values["security_group_id"], all_projects=True)
    return {"project_id": group.project_id}


SECURITY_GROUP = Resource(
    name="security_group",
    quota="security_groups",
    list=Operation(selectors.security_groups_for),
    show=Operation(selectors.security_group_for),
    create=Operation(_create_group),
    update=Operation(_update_group),
    delete=Operation(_delete_group),
    before=_make_default_group,
    attributes=(
        *standard(),
        Attribute(name="stateful", kind=kinds.BOOLEAN, post=True, put=True, default=True),
        shared(sort=False),
        Attribute(name="security_group_rules", kind=kinds.Many(kinds.Free()), filter=False, show=_rules),
    ),
)
SECURITY_GROUP_RULE = Resource(
    name="security_group_rule",
    quota="security_group_rules",
    list=Operation(selectors.security_group_rules_for),
    show=Operation(selectors.security_group_rule_for),
    create=Operation(_create_rule),
    delete=Operation(_delete_rule),
    parent=_of_group,
    before=_make_default_group,
    target=lambda row: {"project_id": row.group.project_id},
    attributes=RULE_ATTRIBUTES,
)


PARENT = DefaultSecurityGroupRule.PARENT


@dataclass(frozen=True)
class RemoteGroup(kinds.Kind):
    """The id of a remote security group, ``PARENT`` for the group that the rule is copied to, or an empty text for
    none.
    """

    @property
    def schema(self) -> Schema:
        return {"type": "string"}

    def read(self, value: object) -> str:
        found = read_id(value)
        if found is None and value not in {PARENT, ""}:
            raise ValueError(f"{kinds.quoted(value)} is neither {PARENT} nor a valid UUID")
        return str(found) if found else str(value)

    def write(self, value: Any) -> str | None:
        return value or None


def _create_default_rule(context: RequestContext, values: Values) -> DefaultSecurityGroupRule:
    return services.create_default_rule({"ethertype": "IPv4", **values})


def _delete_default_rule(context: RequestContext, row: DefaultSecurityGroupRule, revision: int | None) -> None:
    services.delete_default_rule(row.id)


def _default_rules(context: RequestContext, *, all_projects: bool = False) -> list[DefaultSecurityGroupRule]:
    return services.default_rules()


def _default_rule(context: RequestContext, identity: str, *, all_projects: bool = False) -> DefaultSecurityGroupRule:
    return services.default_rule(identity)


DEFAULT_SECURITY_GROUP_RULE = Resource(
    name="default_security_group_rule",
    list=Operation(_default_rules),
    show=Operation(_default_rule),
    create=Operation(_create_default_rule),
    delete=Operation(_delete_default_rule),
    target=lambda row: {},
    tagged=False,
    attributes=(
        Attribute(name="id", kind=kinds.ID, sort=True),
        Attribute(name="description", kind=kinds.TEXT, post=True, sort=True),
        *FLOW_ATTRIBUTES,
        Attribute(name="remote_group_id", kind=kinds.OrNone(RemoteGroup()), column="remote_group", post=True),
        Attribute(name="remote_address_group_id", kind=kinds.OrNone(kinds.ID, empty=True), post=True),
        Attribute(name="used_in_default_sg", kind=kinds.BOOLEAN, post=True, default=False, sort=True),
        Attribute(name="used_in_non_default_sg", kind=kinds.BOOLEAN, post=True, default=True, sort=True),
    ),
)
