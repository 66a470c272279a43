"""Networks (Networking API v2.0 reference, "Networks")."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from portal.api.common.validation import Schema
from portal.api.frame.lists import Column, identity
from portal.api.frame.resource import Operation, Values
from portal.api.network.dialect.attributes import ZONES, Attribute, shared, standard
from portal.api.network.dialect.bodies import columns
from portal.api.network.dialect.kinds import BOOLEAN, ID, TEXT, Choice, Integer, Many, OrNone, Text
from portal.api.network.dialect.names import DnsDomain
from portal.api.network.dialect.resource import Resource
from provisioning.common.context import RequestContext
from provisioning.network import selectors, services
from provisioning.network.models import Network
from provisioning.network.selectors.zones import zones_of_networks
from provisioning.network.services.networks.networks import SMALLEST_MTU

ADMINS = ("create", "update")
PROVIDER = ("get", "create")


@dataclass(frozen=True)
class Mtu(Integer):
    """Bytes; the service rejects values that are too small, with Neutron's message."""

    lowest: int = 0
    highest: int = 65535

    @property
    def schema(self) -> Schema:
        return super().schema | {"minimum": SMALLEST_MTU}


def _create(context: RequestContext, values: Values) -> Network:
    return services.create_network(**columns(NETWORK, values))


def _update(context: RequestContext, row: Network, values: Values, revision: int | None) -> Network:
    return services.update_network(row, columns(NETWORK, values), revision)


def _delete(context: RequestContext, row: Network, revision: int | None) -> None:
    services.delete_network(row, revision)


def _subnets(row: Network) -> list[UUID]:
    return [subnet.id for subnet in sorted(row.subnets.all(), key=lambda subnet: (subnet.created_at, subnet.id))]


def _more(context: RequestContext, rows: Sequence[Network]) -> dict[UUID, dict[str, Any]]:
    """Return the address scopes of networks' subnets, and the zones of the hosts that the networks are on."""
    ids = [row.id for row in rows]
    found, zones = selectors.scopes_of_networks(ids), zones_of_networks(ids)
    return {
        each: {f"ipv{version}_address_scope": ID.write(found.get(each, {}).get(version)) for version in (4, 6)}
        | {"availability_zones": zones.get(each, [])}
        for each in ids
    }


NETWORK = Resource(
    name="network",
    quota="networks",
    list=Operation(selectors.networks_for),
    show=Operation(selectors.network_for),
    create=Operation(_create),
    update=Operation(_update),
    delete=Operation(_delete),
    related=("subnets",),
    more=_more,
    attributes=(
        *standard(),
        Attribute(name="admin_state_up", kind=BOOLEAN, post=True, put=True, sort=True),
        Attribute(name="status", kind=TEXT, sort=True),
        Attribute(name="subnets", kind=Many(ID), filter=False, show=_subnets),
        shared(post=True, put=True, default=False, guards=ADMINS),
        Attribute(
            name="router:external",
            kind=BOOLEAN,
            column="external",
            post=True,
            put=True,
            default=False,
            guards=ADMINS,
            sort=True,
        ),
        Attribute(name="is_default", kind=BOOLEAN, post=True, put=True, default=False, guards=ADMINS),
        Attribute(name="mtu", kind=Mtu(), post=True, put=True, sort=True, guards=ADMINS),
        Attribute(name="port_security_enabled", kind=BOOLEAN, post=True, put=True, default=True, guards=ADMINS),
        Attribute(
            name="ipv4_address_scope",
            kind=OrNone(ID),
            filter=Column("subnets__subnet_pool__address_scope_id", identity),
            show=lambda row: None,
        ),
        Attribute(
            name="ipv6_address_scope",
            kind=OrNone(ID),
            filter=Column("subnets__subnet_pool__address_scope_id", identity),
            show=lambda row: None,
        ),
        *ZONES,
        Attribute(name="dns_domain", kind=DnsDomain(), post=True, put=True),
        Attribute(
            name="provider:network_type",
            kind=OrNone(Choice(("vxlan", "flat", "vlan"))),
            column="network_type",
            post=True,
            guards=PROVIDER,
            sort=True,
        ),
        Attribute(
            name="provider:physical_network",
            kind=OrNone(Text(64)),
            column="physical_network",
            post=True,
            guards=PROVIDER,
            show=lambda row: row.physical_network or None,
        ),
        Attribute(
            name="provider:segmentation_id",
            kind=OrNone(Integer(0, 2**24 - 1)),
            column="segmentation_id",
            post=True,
            guards=PROVIDER,
        ),
    ),
)
