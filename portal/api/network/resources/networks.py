"""Networks and subnets (Networking API v2.0 reference, "Networks", "Subnets")."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from portal.api.frame import Filter, Json, Operation, Schema, Values, identity
from portal.api.network import dialect
from portal.api.network.dialect import bodies, kinds, query, views
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.identity import policy
from provisioning.network import selectors, services
from provisioning.network.models import Network, Subnet, SubnetPool
from provisioning.network.selectors.zones import zones_of_networks
from provisioning.network.services.networks.networks import SMALLEST_MTU

ADMINS = ("create", "update")
PROVIDER = ("get", "create")


@dataclass(frozen=True)
class Mtu(kinds.Integer):
    """Bytes; the service rejects values that are too small, with Neutron's message."""

    lowest: int = 0
    highest: int = 65535

    @property
    def schema(self) -> Schema:
        return super().schema | {"minimum": SMALLEST_MTU}


def _create_network(context: RequestContext, values: Values) -> Network:
    return services.create_network(**bodies.columns(NETWORK, values))


def _update_network(context: RequestContext, row: Network, values: Values, revision: int | None) -> Network:
    return services.update_network(row, bodies.columns(NETWORK, values), revision)


def _delete_network(context: RequestContext, row: Network, revision: int | None) -> None:
    services.delete_network(row, revision)


def _subnets(row: Network) -> list[UUID]:
    return [subnet.id for subnet in sorted(row.subnets.all(), key=lambda subnet: (subnet.created_at, subnet.id))]


def _more(context: RequestContext, rows: Sequence[Network]) -> dict[UUID, Json]:
    """Return the address scopes of networks' subnets, and the zones of the hosts that the networks are on."""
    ids = [row.id for row in rows]
    found, zones = selectors.scopes_of_networks(ids), zones_of_networks(ids)
    return {
        each: {f"ipv{version}_address_scope": kinds.ID.write(found.get(each, {}).get(version)) for version in (4, 6)}
        | {"availability_zones": zones.get(each, [])}
        for each in ids
    }


NETWORK = dialect.Resource(
    name="network",
    quota="networks",
    list=Operation(selectors.networks_for),
    show=Operation(selectors.network_for),
    create=Operation(_create_network),
    update=Operation(_update_network),
    delete=Operation(_delete_network),
    related=("subnets",),
    more=_more,
    attributes=(
        *dialect.standard(),
        dialect.Attribute(name="admin_state_up", kind=kinds.BOOLEAN, post=True, put=True, sort=True),
        dialect.Attribute(name="status", kind=kinds.TEXT, sort=True),
        dialect.Attribute(name="subnets", kind=kinds.Many(kinds.ID), filter=False, show=_subnets),
        dialect.shared(post=True, put=True, default=False, guards=ADMINS),
        dialect.Attribute(
            name="router:external",
            kind=kinds.BOOLEAN,
            column="external",
            post=True,
            put=True,
            default=False,
            guards=ADMINS,
            sort=True,
        ),
        dialect.Attribute(name="is_default", kind=kinds.BOOLEAN, post=True, put=True, default=False, guards=ADMINS),
        dialect.Attribute(name="mtu", kind=Mtu(), post=True, put=True, sort=True, guards=ADMINS),
        dialect.Attribute(
            name="port_security_enabled", kind=kinds.BOOLEAN, post=True, put=True, default=True, guards=ADMINS
        ),
        dialect.Attribute(
            name="ipv4_address_scope",
            kind=kinds.OrNone(kinds.ID),
            filter=Filter("ipv4_address_scope", "subnets__subnet_pool__address_scope_id", identity),
            show=lambda row: None,
        ),
        dialect.Attribute(
            name="ipv6_address_scope",
            kind=kinds.OrNone(kinds.ID),
            filter=Filter("ipv6_address_scope", "subnets__subnet_pool__address_scope_id", identity),
            show=lambda row: None,
        ),
        *dialect.ZONES,
        dialect.Attribute(name="dns_domain", kind=dialect.DnsDomain(), post=True, put=True),
        dialect.Attribute(
            name="provider:network_type",
            kind=kinds.OrNone(kinds.Choice(("vxlan", "flat", "vlan"))),
            column="network_type",
            post=True,
            guards=PROVIDER,
            sort=True,
        ),
        dialect.Attribute(
            name="provider:physical_network",
            kind=kinds.OrNone(kinds.Text(64)),
            column="physical_network",
            post=True,
            guards=PROVIDER,
            show=lambda row: row.physical_network or None,
        ),
        dialect.Attribute(
            name="provider:segmentation_id",
            kind=kinds.OrNone(kinds.Integer(0, 2**24 - 1)),
            column="segmentation_id",
            post=True,
            guards=PROVIDER,
        ),
    ),
)


class Pools(kinds.Many):
    """Allocation pools; null is rejected with Neutron's message."""

    def read(self, value: object) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"Invalid data format for IP pool: '{str(value)[:64]}'")  # noqa: TRY004 - as in Many
        return super().read(value)


MODE = kinds.OrNone(kinds.Choice(("dhcpv6-stateful", "dhcpv6-stateless", "slaac")))
POOLS = Pools(kinds.Record({"start": kinds.ADDRESS, "end": kinds.ADDRESS}, ("start", "end")))
ROUTES = kinds.Many(
    kinds.Record({"destination": kinds.CIDR, "nexthop": kinds.ADDRESS}, ("destination", "nexthop")), null=True
)
NAMED = ("network_id", "subnetpool_id", "use_default_subnetpool", "cidr")
"""Fields of a body that have other names in the service."""


def _network(context: RequestContext, values: Values) -> Network:
    return selectors.network_for(context, values["network_id"], all_projects=policy.allows(context, views.ALL_PROJECTS))


def _subnet_parent(context: RequestContext, values: Values) -> Mapping[str, object]:
    owner = _network(context, values).project_id
    return {"network:project_id": owner, "network:tenant_id": owner}


def _pool(context: RequestContext, values: Values) -> SubnetPool | None:
    """Return the pool to allocate from: the specified one, or the default pool."""
    everything = policy.allows(context, views.ALL_PROJECTS)
    if values.get("subnetpool_id") is not None:
        return selectors.subnet_pool_for(context, values["subnetpool_id"], all_projects=everything)
    if not values.get("use_default_subnetpool"):
        return None
    version = values.get("ip_version", 4)
    found = selectors.subnet_pools_for(context, all_projects=everything).filter(is_default=True, ip_version=version)
    pool = found.first()
    if pool is None:
        raise bodies.HTTPBadRequestError(
            f"No default subnetpool found for IPv{version}", field="use_default_subnetpool"
        )
    return pool


def _create_subnet(context: RequestContext, values: Values) -> Subnet:
    fields: Any = {name: value for name, value in values.items() if name not in NAMED}
    if values.get("allocation_pools") == []:
        msg = "Invalid input for allocation_pools. Reason: without a pool the subnet has no address to allocate."
        raise InvalidInputError(msg, field="allocation_pools")
    pool = _pool(context, values)
    return services.create_subnet(_network(context, values), values.get("cidr"), subnet_pool=pool, **fields)


def _update_subnet(context: RequestContext, row: Subnet, values: Values, revision: int | None) -> Subnet:
    return services.update_subnet(row, values, revision)


def _delete_subnet(context: RequestContext, row: Subnet, revision: int | None) -> None:
    services.delete_subnet(row, revision)


def _subnet_target(row: Subnet) -> Mapping[str, object]:
    owner = row.network.project_id
    return {"project_id": row.project_id, "network:project_id": owner, "network:tenant_id": owner}


SUBNET = dialect.Resource(
    name="subnet",
    quota="subnets",
    list=Operation(selectors.subnets_for),
    show=Operation(selectors.subnet_for),
    create=Operation(_create_subnet),
    update=Operation(_update_subnet),
    delete=Operation(_delete_subnet),
    parent=_subnet_parent,
    target=_subnet_target,
    attributes=(
        *dialect.standard(),
        dialect.Attribute(name="network_id", kind=kinds.ID, post=True, required=True, sort=True),
        dialect.Attribute(name="ip_version", kind=kinds.IPVersion(), post=True, required=True, sort=True),
        dialect.Attribute(name="cidr", kind=kinds.OrNone(kinds.CIDR), post=True, sort=True),
        dialect.Attribute(name="gateway_ip", kind=kinds.OrNone(kinds.ADDRESS), post=True, put=True, sort=True),
        dialect.Attribute(name="enable_dhcp", kind=kinds.BOOLEAN, post=True, put=True, sort=True),
        dialect.Attribute(name="allocation_pools", kind=POOLS, post=True, put=True, filter=False),
        dialect.Attribute(
            name="dns_nameservers", kind=kinds.Many(kinds.ADDRESS, null=True), post=True, put=True, filter=False
        ),
        dialect.Attribute(name="host_routes", kind=ROUTES, post=True, put=True, filter=False),
        dialect.Attribute(name="subnetpool_id", kind=kinds.OrNone(kinds.ID), column="subnet_pool_id", post=True),
        dialect.Attribute(name="use_default_subnetpool", kind=kinds.BOOLEAN, post=True, shown=False, filter=False),
        dialect.Attribute(
            name="prefixlen", kind=kinds.OrNone(kinds.Integer(0, 128)), post=True, shown=False, filter=False
        ),
        dialect.Attribute(name="ipv6_ra_mode", kind=MODE, post=True, show=lambda row: row.ipv6_ra_mode or None),
        dialect.Attribute(
            name="ipv6_address_mode", kind=MODE, post=True, show=lambda row: row.ipv6_address_mode or None
        ),
        dialect.Attribute(
            name="service_types",
            kind=kinds.Many(kinds.Text(255, 1)),
            post=True,
            put=True,
            default=[],
            filter=False,
            guards=("create", "update"),
        ),
    ),
    filters=(Filter("shared", "network_shared", query.boolean),),
)
