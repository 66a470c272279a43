"""Availability zones of networks and routers: all zones, and the current zones of each record."""

import uuid
from collections.abc import Collection, Sequence

from django.db.models import CharField, OuterRef, QuerySet, Subquery, Value

from compute_agent.contract.network import NETWORK, ROUTER
from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.hosts.models import Host
from provisioning.network.errors import AvailabilityZoneNotFoundError
from provisioning.network.models import Delivery


def zoned_hosts() -> QuerySet[Host]:
    """Return the hosts that have enrolled; only their zones count."""
    return Host.objects.exclude(credential_digest="").order_by("availability_zone")


def check_zones(names: Sequence[str]) -> None:
    """Reject the name of a zone without hosts. Raises AvailabilityZoneNotFoundError."""
    known = set(zoned_hosts().values_list("availability_zone", flat=True)) if names else set()
    for name in names:
        if name not in known:
            msg = f"AvailabilityZone {name[:64]} could not be found."
            raise AvailabilityZoneNotFoundError(msg, field="availability_zone_hints")


def zones_of_networks(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, list[str]]:
    """Return network → the zones of the hosts that the network was sent to, by name; one query."""
    return _zones_of(NETWORK, ids)


def zones_of_routers(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, list[str]]:
    """Return router → the zones of the hosts that the router was sent to, by name; one query."""
    return _zones_of(ROUTER, ids)


def _zones_of(kind: str, ids: Collection[uuid.UUID]) -> dict[uuid.UUID, list[str]]:
    result: dict[uuid.UUID, list[str]] = {}
    for identity, name in _SENT_ZONES(kind=kind, ids=ids):
        if name is not None:
            result.setdefault(identity, []).append(name)
    return result


def _sent_zones(kind: Value, ids: Value) -> QuerySet[Delivery, tuple[uuid.UUID, str | None]]:
    zone = Host.objects.filter(id=OuterRef("host_id")).values("availability_zone")[:1]
    sent = Delivery.objects.filter(Among("subject_id", ids), kind=kind).exclude(digest="")
    return sent.annotate(zone=Subquery(zone)).order_by("zone").values_list("subject_id", "zone").distinct()


_SENT_ZONES = Prepared(_sent_zones, kind=CharField(), ids=Ids())
