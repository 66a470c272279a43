"""Ports (Networking API v2.0 reference, "Ports")."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from portal.api.frame import Filter, Json, Operation, Schema, Values, identity
from portal.api.network.dialect import Attribute, DnsName, Resource, bodies, kinds, query, standard, views
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import read_id
from provisioning.identity import policy
from provisioning.network import selectors, services
from provisioning.network.addressing import usual_form
from provisioning.network.models import Network, Port
from provisioning.network.records.owners import CLOUD
from provisioning.network.selectors.records import visible_port_for, visible_ports_for
from provisioning.network.services.base.dhcp_options import BLANK


@dataclass(frozen=True)
class PairAddress(kinds.Kind):
    """An address or a range."""

    @property
    def schema(self) -> Schema:
        return {"type": "string"}

    def read(self, value: object) -> str:
        return kinds.CIDR.read(value) if isinstance(value, str) and "/" in value else kinds.ADDRESS.read(value)


@dataclass(frozen=True)
class Line(kinds.Text):
    """A single-line text."""

    def read(self, value: object) -> str:
        found = super().read(value)
        if len(found.splitlines()) > 1:
            raise ValueError(f"Multi-line string is not allowed: {kinds.quoted(value)}")
        return found


@dataclass(frozen=True)
class DhcpOption(kinds.Record):
    """A DHCP option; only options that an empty value disables may be empty."""

    def read(self, value: object) -> Json:
        found = super().read(value)
        specified = found["opt_value"]
        if specified is not None and not specified.strip() and found["opt_name"] not in BLANK:
            raise ValueError(f"{kinds.quoted(specified)} Blank strings are not permitted")
        return found


@dataclass(frozen=True)
class FixedIps(kinds.Many):
    """Addresses: several of one subnet are allowed, duplicates are rejected, and unknown fields are ignored."""

    distinct: bool = False
    null: bool = True

    def read(self, value: object) -> list[Any]:
        if isinstance(value, list):
            known = ("subnet_id", "ip_address")
            value = [
                {name: each[name] for name in known if name in each} if isinstance(each, dict) else each
                for each in value
            ]
        found = super().read(value)
        addresses = [each["ip_address"] for each in found if "ip_address" in each]
        twice = next((address for index, address in enumerate(addresses) if address in addresses[:index]), None)
        if twice is not None:
            raise ValueError(f"Duplicate IP address {kinds.quoted(twice)}")
        return found


FIXED_IPS = FixedIps(kinds.Record({"subnet_id": kinds.ID, "ip_address": kinds.ADDRESS}))
OPTIONS = kinds.Many(
    DhcpOption(
        {"opt_name": Line(64, 1), "opt_value": kinds.OrNone(Line()), "ip_version": kinds.IPVersion()},
        required=("opt_name", "opt_value"),
    ),
    most=20,
    null=True,
)
PAIRS = kinds.Many(
    kinds.Record({"ip_address": PairAddress(), "mac_address": kinds.MAC}, required=("ip_address",)), most=10, null=True
)
"""The maximum is Neutron's ``max_allowed_address_pair``."""


SET = ("create", "update")
BINDING = ("get", *SET)


def _network(context: RequestContext, values: Values) -> Network:
    """Return the network of a new port: one that its project may use, or any for operators."""
    everything = policy.allows(context, views.ALL_PROJECTS)
    if everything:
        return selectors.network_for(context, values["network_id"], all_projects=True)
    return selectors.usable_network_for(context, values["network_id"])


def _parent(context: RequestContext, values: Values) -> Mapping[str, object]:
    return _owner(_network(context, values))


def _target(row: Port) -> Mapping[str, object]:
    return {"project_id": row.project_id, **_owner(row.network)}


def _owner(network: Network) -> Mapping[str, object]:
    return {"network:project_id": network.project_id, "network:tenant_id": network.project_id}


def _trust(fields: Values, row: Port | None) -> None:
    """Store ``trusted`` in the binding profile, where Neutron shows it as well."""
    before = row.binding_profile if row is not None else {}
    if "trusted" in fields:
        fields["binding_profile"] = {**fields.get("binding_profile", before), "trusted": fields.pop("trusted")}
    elif "binding_profile" in fields and "trusted" in before:
        fields["binding_profile"] = {**fields["binding_profile"], "trusted": before["trusted"]}


def _arguments(
    context: RequestContext, values: Values, owner_rule: str, target: Mapping[str, object], row: Port | None = None
) -> Values:
    """Return a body as arguments of the services; ``owner_rule`` is checked for device owners reserved to the cloud."""
    if str(values.get("device_owner", "")).startswith(CLOUD):
        policy.enforce(context, owner_rule, target)
    arguments = bodies.columns(PORT, values)
    _trust(arguments, row)
    if "security_groups" in arguments:
        arguments["groups"] = selectors.chosen_security_groups(
            context, arguments.pop("security_groups"), all_projects=policy.allows(context, views.ALL_PROJECTS)
        )
    return arguments


def _create(context: RequestContext, values: Values) -> Port:
    network = _network(context, values)
    arguments = _arguments(context, values, "create_port:device_owner", _owner(network))
    del arguments["network_id"]
    return services.create_port(arguments.pop("project_id"), network, **arguments)


def _update(context: RequestContext, row: Port, values: Values, revision: int | None) -> Port:
    arguments = _arguments(context, values, "update_port:device_owner", _target(row), row)
    specified = {name: arguments.pop(name) for name in ("fixed_ips", "groups") if name in arguments}
    return services.update_port(row, arguments, revision, **specified)


def _delete(context: RequestContext, row: Port, revision: int | None) -> None:
    services.delete_port(row, revision)


def _fixed_ips(row: Port) -> list[dict[str, object]]:
    return [{"subnet_id": each.subnet_id, "ip_address": each.address} for each in row.fixed_ips.all()]


def _of_device(values: list[str]) -> Q:
    ids = [found for value in values if (found := read_id(value))]
    return Q(device_id__in=ids) | Q(device_text__in=values, device_id=None)


def _of_status(values: list[str]) -> Q:
    found = Q(status__in=values, admin_state_up=True)
    return found | Q(admin_state_up=False) if "DOWN" in values else found


def _with_part_of_address(values: list[str]) -> Q:
    found = Q()
    for value in values:
        found |= Q(fixed_ips__address__contains=usual_form(value.lower()))
    return found


def _options(row: Port) -> list[Json]:
    return [{"ip_version": 4, **each} for each in row.extra_dhcp_opts]


PORT = Resource(
    name="port",
    quota="ports",
    in_quota=lambda values: not str(values.get("device_owner", "")).startswith(CLOUD),
    list=Operation(visible_ports_for),
    show=Operation(visible_port_for),
    create=Operation(_create),
    update=Operation(_update),
    delete=Operation(_delete),
    parent=_parent,
    target=_target,
    related=("network",),
    attributes=(
        *standard(),
        Attribute(name="network_id", kind=kinds.ID, post=True, required=True, sort=True),
        Attribute(name="mac_address", kind=kinds.OrNone(kinds.MAC), post=True, put=True, sort=True, guards=SET),
        Attribute(name="admin_state_up", kind=kinds.BOOLEAN, post=True, put=True, sort=True),
        Attribute(name="status", kind=kinds.TEXT, sort=True, filter=False, show=lambda row: row.shown_status),
        Attribute(
            name="device_id",
            kind=kinds.Text(),
            column="device_text",
            post=True,
            put=True,
            default="",
            filter=False,
            guards=SET,
            show=lambda row: str(row.device_id) if row.device_id else row.device_text,
        ),
        Attribute(name="device_owner", kind=kinds.TEXT, post=True, put=True, sort=True),
        Attribute(
            name="fixed_ips",
            kind=FIXED_IPS,
            post=True,
            put=True,
            filter=False,
            show=_fixed_ips,
            guards=SET,
            parts=("ip_address", "subnet_id"),
        ),
        Attribute(
            name="security_groups",
            kind=kinds.Many(kinds.ID, null=True),
            post=True,
            put=True,
            filter=Filter("security_groups", read=identity),
            show=lambda row: [group.id for group in row.security_groups.all()],
        ),
        Attribute(
            name="allowed_address_pairs",
            kind=PAIRS,
            post=True,
            put=True,
            default=[],
            filter=False,
            guards=SET,
            parts=("ip_address", "mac_address"),
        ),
        Attribute(name="extra_dhcp_opts", kind=OPTIONS, post=True, put=True, filter=False, show=_options),
        Attribute(name="port_security_enabled", kind=kinds.BOOLEAN, post=True, put=True, default=True, guards=SET),
        Attribute(name="dns_name", kind=DnsName(), post=True, put=True),
        Attribute(name="dns_assignment", kind=kinds.Many(kinds.Free()), filter=False, show=selectors.dns_assignment),
        Attribute(
            name="binding:host_id", kind=kinds.TEXT, column="host", post=True, put=True, default="", guards=BINDING
        ),
        Attribute(
            name="binding:vif_type",
            kind=kinds.TEXT,
            filter=False,
            show=lambda row: "bridge" if row.host else "unbound",
            guards=("get",),
        ),
        Attribute(
            name="binding:vif_details",
            kind=kinds.Free(),
            filter=False,
            show=lambda row: {"port_filter": True} if row.host else {},
            guards=("get",),
        ),
        Attribute(
            name="binding:vnic_type",
            kind=kinds.Choice(("normal",)),
            column="vnic_type",
            post=True,
            put=True,
            default="normal",
            guards=SET,
        ),
        Attribute(
            name="binding:profile",
            kind=kinds.Free(),
            column="binding_profile",
            post=True,
            put=True,
            default={},
            filter=False,
            guards=BINDING,
        ),
        Attribute(
            name="trusted",
            kind=kinds.OrNone(kinds.BOOLEAN),
            post=True,
            put=True,
            filter=False,
            show=lambda row: row.binding_profile.get("trusted"),
            guards=BINDING,
        ),
    ),
    filters=(
        Filter("fixed_ips:ip_address", "fixed_ips__address", query.address),
        Filter("fixed_ips:subnet_id", "fixed_ips__subnet_id", identity),
        Filter("fixed_ips:ip_address_substr", condition=_with_part_of_address),
        Filter("ip_address_substr", condition=_with_part_of_address),
        Filter("device_id", condition=_of_device),
        Filter("status", condition=_of_status),
        Filter("security_group_ids", "security_groups", identity),
    ),
)
